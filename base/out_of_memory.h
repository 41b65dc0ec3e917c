// Running out of memory, as an exception that says how much was asked for, and as a Status.
//
// Blocks are allocated in constructors, so this one error is thrown. It is caught at the entry of
// each call of the trainer's, and where the pipeline's loops begin a group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <utility>

#include "base/status.h"

namespace ringwood {

class OutOfMemory : public std::bad_alloc {
 public:
  OutOfMemory(size_t count, size_t element_bytes) {
    if (count > PTRDIFF_MAX / element_bytes) {
      std::snprintf(text_, sizeof text_, "out of memory: %zu elements of %zu bytes were asked for",
                    count, element_bytes);
    } else {
      std::snprintf(text_, sizeof text_, "out of memory: %zu bytes were asked for",
                    count * element_bytes);
    }
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[96];  // not a string: copying one may need memory
};

// Returns what `call` returns; kResourceExhausted if memory ran out in it.
template <typename Call>
Status CatchOutOfMemory(Call call) {
  try {
    return std::forward<Call>(call)();
  } catch (const OutOfMemory& none) {
    return Exhausted(none.what());
  } catch (const std::bad_alloc&) {
    return Exhausted("out of memory");
  }
}

}  // namespace ringwood
