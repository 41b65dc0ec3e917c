// CHECK is for programs that are wrong, never for a world that failed: the process stops with the
// place and the condition. What bad input, a peer or a disk can cause is a Status instead.
#pragma once

namespace ringwood {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace ringwood

#define RW_CHECK(condition) \
  (static_cast<bool>(condition) ? void() : ::ringwood::CheckFailed(__FILE__, __LINE__, #condition))
