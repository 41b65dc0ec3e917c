#include "launch/supervision/elastic.h"

#include <algorithm>
#include <iterator>

namespace ringwood {

Elastic::Elastic(const ElasticOptions& options)
    : options_(options),
      restarts_(options.restarts),
      members_(options.restarts.hosts.size(), State::kEnded) {}

void Elastic::Begin(int first, int end, TimePoint now) {
  for (int member = first; member < end; ++member) {
    members_[member] = IsSpare(member) ? State::kRuns : State::kTakesPart;
    restarts_.Started(member, now);
  }
}

bool Elastic::IsSpare(int member) const {
  return member >= static_cast<int>(members_.size()) - options_.spares;
}

std::vector<int> Elastic::Start(std::vector<int> members) {
  for (int member : members) dropped_.erase(member);
  for (int member : members) members_[member] = told_ ? State::kRuns : State::kTakesPart;
  return members;
}

void Elastic::Finished(int member) {
  finished_ |= members_[member] == State::kTakesPart;
  members_[member] = State::kEnded;
}

// Who is killed after the first of an epoch has finished may have been through as well; a program
// that fails says that it was not. Where epochs are not told, a rank may have finished long ago and
// the job have died since.
Revival Elastic::Failed(int member, std::optional<Restarts::Cause> cause, TimePoint now) {
  if (members_[member] == State::kTakesPart) {
    finished_ &= told_;
    failed_ |= told_ && cause != Restarts::Cause::kAccident;
  }
  const Revival revival = cause ? restarts_.Failed(member, *cause, now) : Revival();
  End(member, revival);
  return revival;
}

Revival Elastic::Lost(int member, TimePoint over, TimePoint now) {
  const Revival revival = restarts_.Lost(member, over, now);
  End(member, revival);
  return revival;
}

void Elastic::End(int member, const Revival& revival) {
  members_[member] = State::kEnded;
  if (revival.again || options_.restarts.servers == 0) return;  // without a server nothing is told
  if (member == 0) coordinator_lost_ = true;
  if (!told_ && !IsSpare(member)) cannot_begin_ = true;
}

void Elastic::TakePart(const std::vector<int>& members) {
  told_ = true;
  finished_ = failed_ = false;
  for (size_t rank = options_.restarts.servers; rank < members_.size(); ++rank) {
    if (members_[rank] == State::kTakesPart) members_[rank] = State::kRuns;
  }
  for (int member : members) {
    dropped_.erase(member);
    if (members_[member] != State::kEnded) members_[member] = State::kTakesPart;
  }
}

// A process that was started in the place of a dropped one is not meant.
void Elastic::Dropped(int member, TimePoint now) {
  if (!told_ || members_[member] != State::kTakesPart) return;
  dropped_.emplace(member, now + Seconds(options_.patience_seconds));
}

std::vector<int> Elastic::TakeStuck(TimePoint now) {
  std::vector<int> stuck;
  for (auto entry = dropped_.begin(); entry != dropped_.end();) {
    const auto [member, until] = *entry;
    const bool over = now >= until;
    if (over && members_[member] != State::kEnded) stuck.push_back(member);
    entry = over ? dropped_.erase(entry) : std::next(entry);
  }
  return stuck;
}

TimePoint Elastic::deadline() const {
  TimePoint first = restarts_.deadline();
  for (const auto& [member, until] : dropped_) first = std::min(first, until);
  return first;
}

Elastic::Course Elastic::course() const {
  if (coordinator_lost_) return Course::kCoordinatorLost;
  if (cannot_begin_) return Course::kCannotBegin;
  if (finished_ && Count(State::kTakesPart) > 0) return Course::kGoesOn;
  if (finished_) return failed_ ? Course::kNobodyLeft : Course::kFinished;
  // Spares alone are an epoch only where there was one.
  const int run = Count(told_ ? State::kRuns : State::kTakesPart);
  if (run == 0 && restarts_.RanksWaiting(!options_.restart_own) == 0) return Course::kNobodyLeft;
  const int all = Count(State::kRuns) + restarts_.RanksWaiting(false);
  return all < options_.min_ranks ? Course::kTooFew : Course::kGoesOn;
}

int Elastic::Count(State least) const {
  return static_cast<int>(std::count_if(members_.begin() + options_.restarts.servers,
                                        members_.end(),
                                        [least](State state) { return state >= least; }));
}

}  // namespace ringwood
