#include "launch/supervision/host_health.h"

#include <algorithm>
#include <cmath>

namespace ringwood {

HostHealth::HostHealth(const HostHealthOptions& options) : options_(options) {
  for (const std::string& host : options.hosts) hosts_[host];
}

bool HostHealth::Failed(const std::string& host, TimePoint now) {
  Health& health = hosts_[host];
  std::deque<TimePoint>& incidents = health.incidents;
  while (!incidents.empty() && now - incidents.front() > Seconds(kWindowSeconds)) {
    incidents.pop_front();
  }
  if (!incidents.empty() && now - incidents.back() < Seconds(kIncidentSeconds)) return false;
  incidents.push_back(now);
  if (options_.failures == 0 || static_cast<int>(incidents.size()) < options_.failures) {
    return false;
  }
  const bool other = std::any_of(hosts_.begin(), hosts_.end(), [&](const auto& entry) {
    return entry.first != host && entry.second.until <= now;
  });
  if (!other) return false;
  incidents.clear();
  health.until = std::max(health.until, now + Seconds(options_.cooldown_seconds));
  return true;
}

void HostHealth::Lost(const std::string& host, TimePoint over, TimePoint now) {
  Health& health = hosts_[host];
  if (health.losses > 0 && now - health.lost < Seconds(kIncidentSeconds)) {  // its other processes
    health.until = std::max(health.until, over);
    return;
  }
  if (now > health.until + Seconds(kReachedSeconds)) health.losses = 0;
  const double pause = std::min(options_.cooldown_seconds, std::exp2(health.losses));
  ++health.losses;
  health.lost = now;
  health.until = std::max({health.until, over, now + Seconds(pause)});
}

TimePoint HostHealth::until(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? TimePoint() : found->second.until;
}

}  // namespace ringwood
