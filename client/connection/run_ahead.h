// How far a rank may run ahead of one that is late, where nothing that it waits for holds it back:
// a broadcast's root is done when its bytes have left. What arrives at the other one stays below
// the bytes that a transport keeps. The same on all members, as they make the same calls.
#pragma once

#include <cstdint>

namespace ringwood {

class RunAhead {
 public:
  explicit RunAhead(uint64_t most) : most_(most) {}

  // Whether all members have to meet before so many bytes more are sent.
  bool TooFar(uint64_t bytes) const { return bytes_ != 0 && bytes_ + bytes > most_; }
  void Sent(uint64_t bytes) { bytes_ += bytes + kEachBytes; }
  void Met() { bytes_ = 0; }

 private:
  // A message takes some memory where it is not awaited, however short it is.
  static constexpr uint64_t kEachBytes = 4096;

  const uint64_t most_;
  uint64_t bytes_ = 0;  // since they met
};

}  // namespace ringwood
