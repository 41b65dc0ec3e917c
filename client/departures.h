// Ranks that leave an elastic job in order while others stay. What they owe, residuals and rounding
// errors, the lowest of the ranks that stay takes over (the heir), so that the sum over all ranks
// stays what it was. Velocities are each rank's own, and end with it.
//
// A rank has left when it knows that its heir has everything. If the epoch ends before, the rank
// goes on into the next one and leaves there. An heir that has everything says so then: nothing is
// taken over twice.
//
// Trainer's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"
#include "client/connection/epoch_link.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"

namespace ringwood {

class Departures {
 public:
  // Both outlive this.
  Departures(const TensorTable& table, TensorStates* states) : table_(table), states_(states) {}

  // This rank is to leave: `round`, above 0, is the first one that is not committed.
  void LeaveBefore(uint64_t round) { leaves_before_ = round; }
  bool leaves() const { return leaves_before_ != 0; }

  // Between two steps, on every rank: those of `ranks`, some but not all, leave before `round`.
  // After an error the epoch has failed, and they have not.
  Status Together(const std::vector<int>& ranks, uint64_t round, EpochLink* link);

  // Once an epoch, on every rank, with a plan in force that has not started: those leave that were
  // to leave before and have not. Where all were the job is over, and nobody has an heir: all stay
  // until they close.
  Status Late(EpochLink* link);

  // Of the present epoch: the ranks that have left it, and whether this one is among them.
  const std::vector<int>& left() const { return left_; }
  bool gone() const { return gone_; }

  // The epoch is over, and there is no plan: what this rank has inherited is its own now.
  void EpochOver();

 private:
  struct Leaver {
    int rank;
    uint64_t before;  // a round
  };
  Status Send(const std::vector<Leaver>& leavers, int heir, EpochLink* link);
  StatusOr<std::vector<uint8_t>> OwedBySome(EpochLink* link) const;
  Status Left(std::vector<int> ranks, EpochLink* link);

  const TensorTable& table_;
  TensorStates* const states_;
  uint64_t leaves_before_ = 0;  // a round; 0: it stays
  std::vector<int> left_;
  bool gone_ = false;
  // The heir's: by slot, before which round it left, and by id what was owed.
  std::map<int, uint64_t> inherited_;
  std::map<size_t, std::vector<float>> owed_;
};

}  // namespace ringwood
