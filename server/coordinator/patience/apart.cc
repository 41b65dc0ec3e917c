#include "server/coordinator/patience/apart.h"

#include <algorithm>

namespace ringwood {

void Apart::Forget(TimePoint now) {
  std::erase_if(served_, [now](const auto& entry) {
    const auto& [until, length, judged] = entry.second;
    return now - std::max(until, judged) > kRemembered * length;
  });
}

Duration Apart::Sentence(uint64_t member, TimePoint now) {
  Forget(now);
  Served& served = served_[member];
  served.judged = now;
  if (served.until > now) return Duration::zero();
  served.length = served.length == Duration::zero()
                      ? first_
                      : std::min(2 * served.length, (1 << kMostDoublings) * first_);
  served.until = now + served.length;
  return served.length;
}

void Apart::Free(uint64_t member) {
  if (const auto found = served_.find(member); found != served_.end()) found->second.until = {};
}

TimePoint Apart::Until(uint64_t member) const {
  const auto found = served_.find(member);
  return found == served_.end() ? TimePoint() : found->second.until;
}

}  // namespace ringwood
