// Sends this worker's stripe of the job's state to those that come, from a copy, while training
// goes on.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "client/connection/epoch_link.h"
#include "client/connection/state_wire.h"

namespace ringwood {

class StateDonor : public std::enable_shared_from_this<StateDonor> {
 public:
  // Copies `items`, which are equal on all holders, and serves every worker of the epoch that is
  // none. This worker is one. The copy lives until all have it or the epoch ends.
  static Status Serve(EpochLink* link, const std::vector<StateItem>& items);

 private:
  void Fill(const std::vector<StateItem>& items);
  void Start(Transport* transport);                                    // net loop
  void AnswerRequest(Transport* transport, int receiver, uint64_t i);  // net loop
  std::span<const std::byte> Piece(uint64_t i) const;                  // of this stripe

  std::vector<int> receivers_;
  uint64_t stripe_ = 0, stripes_ = 1;  // this worker's place among the holders, and their number
  StateHead head_;
  Buffer<std::byte> row_;
  std::byte request_{};  // what a request has: nothing of interest
};

}  // namespace ringwood
