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

namespace ringwood {

class Inheritance {
 public:
  // Between two steps, on every rank: those of `leaving`, which are not all, send each tensor to
  // all, and the heir keeps it. An error: some of it is lost, as with a rank that dies.
  Status Exchange(const std::vector<int>& leaving, const TensorTable& table,
                  const TensorStates& states, EpochLink* link);

  // While there is no plan: what this rank has inherited is its own now.
  void GiveTo(TensorStates* states);

 private:
  std::map<size_t, std::vector<float>> owed_;  // by id; the heir's
};

}  // namespace ringwood
