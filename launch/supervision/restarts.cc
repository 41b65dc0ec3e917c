#include "launch/supervision/restarts.h"

#include <algorithm>
#include <cmath>

namespace ringwood {

Restarts::Restarts(const RestartOptions& options)
    : options_(options),
      health_({options.hosts, options.host_failures, options.cooldown_seconds}),
      members_(options.hosts.size()) {}

void Restarts::Started(int member, TimePoint now) { members_[member].started = now; }

Revival Restarts::Failed(int member, Cause cause, TimePoint now) {
  Member& failed = members_[member];
  const bool server = IsServer(member);
  const double window = server ? kServerWindowSeconds : kRankWindowSeconds;
  while (!failed.restarts.empty() && now - failed.restarts.front() > Seconds(window)) {
    failed.restarts.pop_front();
  }
  Settle(&failed, now);
  if (cause == Cause::kOwn) failed.row = std::max(failed.row, 1);
  const bool set_aside = cause != Cause::kSuffered && health_.Failed(options_.hosts[member], now);
  const int most = server ? kMostOfServer : options_.most;
  Revival revival;
  if (static_cast<int>(failed.restarts.size()) < most) {
    failed.own = cause == Cause::kOwn;
    failed.at = now + Pause(&failed);
    failed.restarts.push_back(now);
    revival = Await(member, now);
  }
  revival.count = static_cast<int>(failed.restarts.size());
  revival.most = most;
  revival.set_aside = set_aside;
  return revival;
}

Revival Restarts::Lost(int member, TimePoint over, TimePoint now) {
  Member& lost = members_[member];
  health_.Lost(options_.hosts[member], over, now);
  Settle(&lost, now);
  const bool never = !IsServer(member) && options_.most == 0;
  if (never || ++lost.losses > kMostLosses) return {};
  lost.own = false;
  lost.row = std::max(lost.row, 1);
  lost.at = std::max(over, now + Pause(&lost));
  return Await(member, now);
}

Duration Restarts::Pause(Member* member) {
  const double pause = member->row == 0 ? 0 : std::exp2(member->row - 1);
  ++member->row;
  return Seconds(std::min(pause, kLongestPauseSeconds));
}

void Restarts::Settle(Member* member, TimePoint now) const {
  if (now - member->started < Seconds(kSettledSeconds)) return;
  member->row = member->losses = 0;
}

Revival Restarts::Await(int member, TimePoint now) {
  members_[member].waits = true;
  Revival revival;
  revival.again = true;
  revival.pause_seconds = std::max(0.0, ToSeconds(DueTime(member) - now));
  return revival;
}

// The coordinator comes back where everybody looks for it, whatever its host has done.
TimePoint Restarts::DueTime(int member) const {
  const TimePoint at = members_[member].at;
  if (member == 0 && IsServer(member)) return at;
  return std::max(at, health_.until(options_.hosts[member]));
}

std::vector<int> Restarts::TakeDue(TimePoint now) {
  std::vector<int> due;
  for (int member = 0; member < static_cast<int>(members_.size()); ++member) {
    if (!members_[member].waits || now < DueTime(member)) continue;
    members_[member].waits = false;
    members_[member].started = now;
    ++members_[member].total;
    due.push_back(member);
  }
  return due;
}

TimePoint Restarts::deadline() const {
  TimePoint first = TimePoint::max();
  for (int member = 0; member < static_cast<int>(members_.size()); ++member) {
    if (members_[member].waits) first = std::min(first, DueTime(member));
  }
  return first;
}

int Restarts::RanksWaiting(bool helped) const {
  return static_cast<int>(
      std::count_if(members_.begin() + options_.servers, members_.end(),
                    [&](const Member& member) { return member.waits && !(helped && member.own); }));
}

}  // namespace ringwood
