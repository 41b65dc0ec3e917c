// The logged rounds that a session replays when it starts, fetched a few at a time. Trainer's
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/updates/round_body.h"
#include "client/updates/update_client.h"

namespace ringwood {

class UpdateReader {
 public:
  // Rounds and bytes that are fetched at once, at least one round.
  static constexpr uint64_t kRounds = 256;
  static constexpr uint64_t kBytes = 64 << 20;

  bool empty() const { return rounds_.empty(); }
  // Of the rounds after `after` up to `last` the first ones.
  Status Fetch(UpdateClient* client, uint64_t after, uint64_t last);
  // The first of them, into the gradients; not while empty.
  StatusOr<RoundFacts> Next(const TensorsById& tensors);

 private:
  struct Fetched {
    uint64_t step = 0;
    std::string body;
  };
  std::deque<Fetched> rounds_;
  std::vector<std::string> spare_;  // bodies of rounds before: new memory for each takes longer
  uint64_t largest_ = 0;            // round so far, in bytes
};

}  // namespace ringwood
