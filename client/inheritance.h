// What ranks owe that leave an elastic job in order: residuals and rounding errors, which the
// lowest of the ranks that stay takes over, so that the sum over all ranks stays what it was.
// Velocities are each rank's own, and end with it.
//
// Trainer's thread.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "base/status.h"
#include "client/connection/epoch_link.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

class Inheritance {
 public:
  // Right after `commit` was applied, on every rank: those that leave send, each tensor to all, and
  // the heir keeps it. An error: some of it is lost, as with a rank that dies.
  Status Exchange(const v1::Commit& commit, const TensorTable& table, const TensorStates& states,
                  EpochLink* link);

  // While there is no plan: what this rank has inherited is its own now.
  void GiveTo(TensorStates* states);

 private:
  std::map<size_t, std::vector<float>> owed_;  // by id; the heir's
};

}  // namespace ringwood
