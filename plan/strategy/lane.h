// One lane: tensors in ready order, sent as groups, one group after the other. What is sent is on
// its way for a delay, in which the next groups are sent. The strategies that choose the groups are
// pure functions, one file each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "plan/model/cost.h"

namespace ringwood {

struct LaneInput {
  std::vector<double> ready_seconds;  // from the start of backward, non-decreasing
  std::vector<uint64_t> bytes;        // same length
  Cost cost;                          // of one group
  uint64_t group_limit_bytes = 0;     // 0: no limit. A tensor above it is a group of its own.
  Delay delay = {};                   // of a group that was sent
  int window = 1;                     // groups at once, where there is a delay
};

// The groups of a lane that have not ended: at most `window`, so that the next one may have to wait
// for room.
class OnTheWay {
 public:
  explicit OnTheWay(int window) : window_(static_cast<size_t>(window)) {}
  double Room() const { return ends_.size() < window_ ? 0 : *ends_.begin(); }
  // The next group, which has started when there was room.
  void Add(double end) {
    if (ends_.size() == window_) ends_.erase(ends_.begin());
    ends_.insert(end);
  }

 private:
  size_t window_;
  std::multiset<double> ends_;
};

// A run of tensors, first..last inclusive, and when its message starts and ends.
struct Run {
  size_t first = 0;
  size_t last = 0;
  double start_seconds = 0;
  double end_seconds = 0;
  std::string reason;
};
using Grouping = std::vector<Run>;

// Whether the tensors first..last (their bytes summed in `bytes`) may be one group.
bool Allowed(const LaneInput& lane, size_t first, size_t last, double bytes);

// FIFO: start = max(group before was sent, ready of the last tensor, one of the window has ended);
// end = start + cost + delay. `lasts`: last tensor of each group, increasing, the final one =
// number of tensors - 1.
Grouping Play(const LaneInput& lane, const std::vector<size_t>& lasts);

// When the last group ends; 0 for an empty lane.
double EndOf(const Grouping& grouping);

// Writes each group's reason: what merging waited for and what it saved, what ended the group.
void Explain(const LaneInput& lane, Grouping& grouping);

// Every tensor its own group (Poseidon's and everyone's wait-free backpropagation).
std::vector<size_t> Wfbp(const LaneInput& lane);
// One group after backward (SyncEASGD).
std::vector<size_t> Single(const LaneInput& lane);
// Buckets of 25 MB, the first of 1 MB: what DDP and Horovod do.
std::vector<size_t> Fixed(const LaneInput& lane);
// MG-WFBP (Shi, Chu, Li; INFOCOM 2019): merge while the wait is below one start-up.
std::vector<size_t> MgWfbp(const LaneInput& lane);
// OASR-WFBP (Song et al., JPDC 2024), our formulation: merge while all waits of the group together
// are below one start-up.
std::vector<size_t> Oasr(const LaneInput& lane);
// The earliest possible end over all groupings, for any monotone cost; ties go to fewer groups.
// With a delay it is exact where all groups have the same one and no more than `window` are sent;
// otherwise it is the best of some plans. Above kMostExactTensors (a search of a second) it is
// Oasr's.
constexpr size_t kMostExactTensors = 8192;
std::vector<size_t> Exact(const LaneInput& lane);
// The fewest groups whose end is later than the earliest one by the share `slack` at most: every
// group costs both ends work that the lane's time does not show. With a cost that is not affine
// they are few, though not always the fewest.
std::vector<size_t> Fewest(const LaneInput& lane, double slack);

}  // namespace ringwood
