#include "launch/supervision/supervisor.h"

#include <algorithm>
#include <csignal>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace ringwood {
namespace {

constexpr double kGraceSeconds = 2;   // beyond the failure timeout, for last words
constexpr double kStopSeconds = 3;    // between SIGTERM and SIGKILL
constexpr double kServerSeconds = 5;  // a server writes what it holds before it ends
constexpr double kKillSeconds = 3;    // SIGKILL needs no time; the way to the host may
constexpr size_t kMostNames = 400;    // bytes of an error's list of servers

void Append(std::vector<Action>* actions, const std::vector<Action>& more) {
  actions->insert(actions->end(), more.begin(), more.end());
}

}  // namespace

Supervisor::Supervisor(const SupervisorOptions& options)
    : options_(options),
      members_(options.servers + options.ranks, State::kAbsent),
      stop_seconds_(kStopSeconds),
      inquest_({options.servers, options.elastic.has_value(), options.restart_on_failure}) {
  if (options.elastic) elastic_.emplace(*options.elastic);
}

std::vector<Action> Supervisor::Begin(TimePoint now) {
  return Enter(options_.servers > 0 ? Phase::kServer : Phase::kRanks, now);
}

std::vector<Action> Supervisor::Ready(int member, TimePoint now) {
  if (members_[member] == State::kAlive) members_[member] = State::kReady;
  if (Trains()) inquest_.Back(member);  // it was started again
  return Advance(now);
}

std::vector<Action> Supervisor::Ended(int member, const Ending& ending, TimePoint now) {
  if (members_[member] == State::kEnded) return {};
  members_[member] = State::kEnded;
  inquest_.Ended(member, ending);
  if (Trains()) return EndedInTraining(member, ending, now);
  const bool server = member < options_.servers;
  const bool ours = phase_ >= Phase::kStopping;  // the answer to a signal of ours
  continues_ |= grace_ && !server && ending.code == kExitRestart;
  // A server that is suspended where the ranks have ended well, or by a failure of their own:
  // nobody waited for it. In an elastic job that failure may be one that the others went on
  // without.
  const bool cause = !elastic_ && inquest_.HasCause();
  const bool needless = server && ours && RanksGone() && (cause || inquest_.NothingFailed());
  const bool failed = (ending.stopped && !needless) || (!ours && (server || ending.code != 0));
  if (failed && phase_ < Phase::kRanks) started_ = false;
  if (failed) inquest_.Failed(member, ending, Describe(ending));
  if (failed && !ours) return Fail(now);
  return Advance(now);
}

// One that failed has ended the attempt already. What the coordinator said before a member joined
// may come here after that member's end, so it has to be said twice.
std::vector<Action> Supervisor::Awaited(const std::vector<int>& members, TimePoint now) {
  if (phase_ != Phase::kRanks || elastic_) return {};
  std::vector<int> gone;
  for (const int member : members) {
    if (members_[member] == State::kEnded) gone.push_back(member);
  }
  const std::vector<int> before = std::exchange(gone_, gone);
  const auto twice = std::find_first_of(gone.begin(), gone.end(), before.begin(), before.end());
  if (twice == gone.end()) return {};
  inquest_.Failed(
      *twice, {kExitConfiguration, 0, false},
      "exited with code 0, and the others wait for it to join: every rank opens the same "
      "sessions");
  return Fail(now);
}

// Failures are kept until their member is back: those of the members that never came back count.
std::vector<Action> Supervisor::EndedInTraining(int member, const Ending& ending, TimePoint now) {
  const bool server = member < options_.servers;
  if (!server && !ending.stopped && ending.code == 0) {
    elastic_->Finished(member);
    return Follow(now);
  }
  const Meaning meaning = MeaningOf(ending, server);
  std::optional<Restarts::Cause> cause = Restarts::Cause::kAccident;
  if (meaning == Meaning::kOwn) cause = Restarts::Cause::kOwn;
  if (!server && ending.code == kExitRestart) cause = Restarts::Cause::kSuffered;
  // A coordinator says 78 as well where its port is not free yet.
  if (meaning == Meaning::kConfiguration && !(server && member == 0)) cause = std::nullopt;
  Revival revival = elastic_->Failed(member, cause, now);
  revival.again &= elastic_->course() == Elastic::Course::kGoesOn;
  Fell(member, ending, Describe(ending), revival);
  return Follow(now);
}

std::vector<Action> Supervisor::Lost(int member, TimePoint over, TimePoint now) {
  const Ending killed{kShellSignals + SIGKILL, SIGKILL, false};
  if (!Trains() || members_[member] == State::kEnded) return Ended(member, killed, now);
  members_[member] = State::kEnded;
  inquest_.Ended(member, killed);
  Fell(member, killed, "was lost with its host", elastic_->Lost(member, over, now));
  return Follow(now);
}

// The first failure of each member is the cause of those that follow.
void Supervisor::Fell(int member, const Ending& ending, const std::string& reason,
                      const Revival& revival) {
  if (!inquest_.HasFailed(member)) inquest_.Failed(member, ending, reason);
  setbacks_.push_back({member, reason, revival});
}

void Supervisor::TookPart(const std::vector<int>& members) {
  if (!Trains()) return;
  elastic_->TakePart(members);
  for (int member : members) {
    if (members_[member] != State::kEnded) inquest_.Back(member);
  }
}

void Supervisor::Dropped(int member, TimePoint now) {
  if (Trains()) elastic_->Dropped(member, now);
}

std::vector<Action> Supervisor::Follow(TimePoint now) {
  switch (elastic_->course()) {
    case Elastic::Course::kGoesOn:
      return {};
    case Elastic::Course::kFinished:
      finished_ = true;
      [[fallthrough]];
    case Elastic::Course::kNobodyLeft:
      return Enter(RanksGone() ? Phase::kServerStop : Phase::kStopping, now);
    case Elastic::Course::kCoordinatorLost:
    case Elastic::Course::kTooFew:
    case Elastic::Course::kCannotBegin:
      return Fail(now);
  }
  return {};
}

std::vector<Action> Supervisor::Broke(const Status& status, TimePoint now) {
  if (phase_ < Phase::kStopping) inquest_.Broke(status);
  return Fail(now);
}

std::vector<Action> Supervisor::Interrupt(TimePoint now, bool grace) {
  if (done()) return {};
  if (++interrupts_ == 1) {
    grace_ = grace;
    if (grace) stop_seconds_ = std::max(kStopSeconds, options_.grace_seconds);
    return phase_ < Phase::kStopping ? Enter(Phase::kStopping, now) : std::vector<Action>();
  }
  std::vector<Action> actions = {Action::kKillServers};
  Append(&actions, Enter(Phase::kKilling, now));
  return actions;
}

TimePoint Supervisor::deadline() const { return Trains() ? elastic_->deadline() : deadline_; }

std::vector<Action> Supervisor::Tick(TimePoint now) {
  if (now < deadline()) return {};
  switch (phase_) {
    case Phase::kServer:
    case Phase::kReducers:
      return Broke(TimedOut(absl::StrFormat("not ready within %g s (--join-timeout): %s; look at "
                                            "their output, and whether their hosts can be reached",
                                            options_.join_timeout_seconds, NotReady())),
                   now);
    case Phase::kRanks:
      stuck_ = elastic_->TakeStuck(now);
      due_ = elastic_->TakeDue(now);
      for (int member : due_) {
        members_[member] = State::kAlive;
        inquest_.StartedAgain(member);
      }
      return {Action::kEndStuck, Action::kStartAgain};
    case Phase::kGrace:
      return Enter(Phase::kStopping, now);
    case Phase::kStopping:
      return Enter(Phase::kKilling, now);
    case Phase::kServerStop:
      return Enter(Phase::kServerKill, now);
    case Phase::kKilling:
    case Phase::kServerKill:
      phase_ = Phase::kDone;
      return {Action::kAbandon};
    case Phase::kDone:
      return {};
  }
  return {};
}

std::vector<Action> Supervisor::Enter(Phase phase, TimePoint now) {
  phase_ = phase;
  auto within = [&](double seconds) { deadline_ = now + Seconds(seconds); };
  std::vector<Action> actions;
  switch (phase) {
    case Phase::kServer:
      within(options_.join_timeout_seconds);
      Start(0, 1);
      return {Action::kStartServer};
    case Phase::kReducers:
      within(options_.join_timeout_seconds);
      Start(1, options_.servers);
      return {Action::kStartReducers};
    case Phase::kRanks:
      deadline_ = TimePoint::max();
      Start(0, static_cast<int>(members_.size()));
      if (!elastic_) return {Action::kStartRanks};
      elastic_->Begin(0, static_cast<int>(members_.size()), now);
      if (options_.servers > 1) actions = {Action::kStartReducers};
      actions.push_back(Action::kStartRanks);
      return actions;
    case Phase::kGrace:
      within(options_.failure_timeout_seconds + kGraceSeconds);
      actions = {Action::kEndStoppedRanks};
      break;
    case Phase::kStopping:
      within(stop_seconds_);
      actions = {Action::kStopRanks};
      break;
    case Phase::kKilling:
      within(kKillSeconds);
      actions = {Action::kKillRanks};
      break;
    case Phase::kServerStop:
      within(kServerSeconds);
      actions = {Action::kStopServers};
      break;
    case Phase::kServerKill:
      within(kKillSeconds);
      actions = {Action::kKillServers};
      break;
    case Phase::kDone:
      deadline_ = TimePoint::max();
      return {};
  }
  Append(&actions, Advance(now));
  return actions;
}

std::vector<Action> Supervisor::Advance(TimePoint now) {
  switch (phase_) {
    case Phase::kServer:
      if (members_[0] != State::kReady) return {};
      return Enter(options_.servers > 1 && !elastic_ ? Phase::kReducers : Phase::kRanks, now);
    case Phase::kReducers:
      if (Any(1, options_.servers, State::kAlive)) return {};
      return Enter(Phase::kRanks, now);
    case Phase::kRanks:
      if (elastic_) return {};  // Follow() says when
      [[fallthrough]];
    case Phase::kGrace:
    case Phase::kStopping:
    case Phase::kKilling:
      return RanksGone() ? Enter(Phase::kServerStop, now) : std::vector<Action>();
    case Phase::kServerStop:
    case Phase::kServerKill:
      return ServersGone() ? Enter(Phase::kDone, now) : std::vector<Action>();
    case Phase::kDone:
      return {};
  }
  return {};
}

std::vector<Action> Supervisor::Fail(TimePoint now) {
  if (phase_ >= Phase::kGrace) return Advance(now);
  return Enter(phase_ == Phase::kRanks ? Phase::kGrace : Phase::kServerStop, now);
}

void Supervisor::Start(int first, int end) {
  for (int member = first; member < end; ++member) {
    if (members_[member] == State::kAbsent) members_[member] = State::kAlive;
  }
}

bool Supervisor::Any(int first, int end, State state) const {
  for (int member = first; member < end; ++member) {
    if (members_[member] == state) return true;
  }
  return false;
}

std::string Supervisor::NotReady() const {
  std::vector<std::string> names;
  for (size_t server = 0; server < options_.server_names.size(); ++server) {
    if (members_[server] == State::kAlive) names.push_back(options_.server_names[server]);
  }
  return Shortened(absl::StrJoin(names, ", "), kMostNames);
}

bool Supervisor::RanksGone() const {
  return !Any(options_.servers, static_cast<int>(members_.size()), State::kAlive);
}

bool Supervisor::ServersGone() const {
  return !Any(0, options_.servers, State::kAlive) && !Any(0, options_.servers, State::kReady);
}

std::vector<Action> Supervisor::Told(int member, const std::string& sentence, TimePoint now) {
  const bool known = member >= 0 && member < static_cast<int>(members_.size());
  // That one has ended by a signal of ours, for a failure that the coordinator has not noticed: of
  // a rank that had joined and sent no heartbeat yet.
  const bool ours = known && phase_ >= Phase::kStopping && !inquest_.HasFailed(member);
  if (ours && inquest_.HasCause()) return {};
  const bool news = inquest_.Told(known ? member : -1, sentence);
  return news && Trains() ? Fail(now) : std::vector<Action>();
}

Verdict Supervisor::Judge() const {
  Verdict verdict;
  if (interrupts_ > 0) {
    verdict.exit_code = continues_ ? kExitRestart : kExitInterrupted;
    verdict.reason = continues_ ? "ended as asked, to be started again" : "interrupted";
    return verdict;
  }
  if (finished_) {
    verdict.told = inquest_.told();
    return verdict;
  }
  verdict = inquest_.Judge();
  verdict.unreachable |= verdict.restart_helps && !started_;
  return verdict;
}

}  // namespace ringwood
