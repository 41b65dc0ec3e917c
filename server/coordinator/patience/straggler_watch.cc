#include "server/coordinator/patience/straggler_watch.h"

#include <algorithm>

namespace ringwood {

std::vector<uint32_t> StragglerWatch::Late(uint64_t round, const std::vector<Worker>& workers,
                                           uint32_t least, TimePoint now) {
  if (grace_ == Duration::zero()) return {};
  std::vector<uint32_t> behind;
  uint32_t ready = 0;
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    if (workers[rank].ready) ++ready;
    if (!workers[rank].ready && !workers[rank].exempt) behind.push_back(rank);
  }
  const uint32_t half = static_cast<uint32_t>(workers.size() + 1) / 2;
  if (ready < std::max(least, half)) {
    round_ = 0;
    return {};
  }
  if (round_ != round) {
    round_ = round;
    since_ = now;
  }
  // Whoever is exempt holds the others up all the same: without it nothing is won.
  const bool all = ready + behind.size() == workers.size();
  return all && Waited(now) > grace_ ? behind : std::vector<uint32_t>();
}

}  // namespace ringwood
