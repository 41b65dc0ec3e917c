// What a round needs beside its sums to be applied: the weight of all ranks together, and whether
// some rank met a NaN or Inf. In an elastic job the workers exchange both among themselves, so that
// a round that was exchanged can be applied by permission alone, even if the coordinator and some
// voters die together. The coordinator's commit says the same.
//
// The messages travel beside those of the groups, on a lane of their own. Net loop.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "dense/place.h"
#include "transport/transport.h"

namespace ringwood {

struct Totals {
  double weight = 0;
  bool skipped = false;  // nothing is applied: a NaN or Inf somewhere, or nobody has a sample
  std::vector<int> contributors;  // nodes with a weight above 0, ascending
  bool operator==(const Totals&) const = default;
};

class RoundTotals {
 public:
  explicit RoundTotals(const Place& place);

  // One round at a time; `done` may run within the call. After an error buffers are in use until
  // the transport is closed.
  void Start(Transport* transport, uint64_t round, double weight, bool non_finite,
             std::function<void(Status)> done);

  // After an OK `done`. The weights are added in rank order, as the coordinator adds them.
  Totals totals() const;

 private:
  const Place place_;
  std::vector<double> own_, all_;  // a weight for each rank, then a 1 for each NaN or Inf
};

}  // namespace ringwood
