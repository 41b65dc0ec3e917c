// A caller's first message: who it is, proved by a keyed MAC (HMAC-SHA256) over what only members
// of the epoch know. The key is the job's token. The numbers that each process drew for this fabric
// are sent in the coordinator's Join answers only, never here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/fabric.h"

namespace ringwood {

struct Hello {
  EpochName name;       // self is the caller
  int to = 0;           // the node that is called
  uint64_t caller = 0;  // the caller's number
  uint64_t called = 0;  // the number of the node that is called
};

// The caller's node in four bytes, then the MAC.
constexpr size_t kHelloBytes = 4 + 32;
std::vector<std::byte> SignHello(const Hello& hello, const std::string& token);
// The node that `bytes` claims to come from; -1: no hello.
int ClaimedNode(std::span<const std::byte> bytes);
bool IsHello(std::span<const std::byte> bytes, const Hello& hello, const std::string& token);

}  // namespace ringwood
