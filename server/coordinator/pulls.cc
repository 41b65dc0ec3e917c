#include "server/coordinator/pulls.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/units.h"

namespace ringwood {
namespace {

constexpr char kTakeStored[] = "wait longer, or take what the store has (--newest-stored)";

std::string WhyNone(uint64_t since, uint64_t round, const std::string& state) {
  if (round > since) {
    return absl::StrFormat(
        "steps %d to %d were committed, and rank 0 put the checkpoint off: checkpoints may stop "
        "the training for 2 %% of the time, and its last one took long",
        since + 1, round);
  }
  return "no step was committed" + (state.empty() ? "" : ": " + state);
}

}  // namespace

Status CheckPulledJob(uint64_t wanted, uint64_t job) {
  if (wanted == 0 || wanted == job) return OkStatus();
  return NotFound(absl::StrFormat(
      "job %016x does not run here, job %016x does: name that one, or take what the store has "
      "(--newest-stored)",
      wanted, job));
}

void Pulls::Add(const event::Pull& pull, uint64_t round, TimePoint now, Outbox* out) {
  if (waiting_.size() >= kMaxWaiting) {
    return out->Reply(
        pull.call, Exhausted(absl::StrFormat("%d readers wait for a checkpoint already: try again",
                                             kMaxWaiting)));
  }
  // A time that is not a number is none.
  const double asked = std::min(pull.request.timeout_seconds(), kMaxSeconds);
  const double seconds = asked > 0 ? asked : 0;
  waiting_[pull.call] = {pull.request.job(), round, seconds, now + Seconds(seconds)};
}

void Pulls::Committed(const v1::EpochRecord& epoch, const v1::Commit& commit, Outbox* out) {
  if (!commit.checkpoint()) return;
  v1::PullResponse due;
  due.set_job(epoch.job());
  due.set_epoch(epoch.epoch());
  due.set_step(commit.round());
  for (const auto& [call, waiting] : waiting_) {
    const Status same = CheckPulledJob(waiting.job, epoch.job());
    same.ok() ? out->Reply(call, due) : out->Reply(call, same);
  }
  waiting_.clear();
}

bool Pulls::CallGone(CallId call, Outbox* out) {
  if (waiting_.erase(call) == 0) return false;
  out->Reply(call, Aborted("the caller went away"));
  return true;
}

void Pulls::Tick(uint64_t round, const std::string& state, TimePoint now, Outbox* out) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto& [call, waiting] = *it;
    if (waiting.deadline > now) {
      ++it;
      continue;
    }
    out->Reply(call, TimedOut(absl::StrFormat(
                         "no checkpoint began within %s: %s; %s", FormatSeconds(waiting.seconds),
                         WhyNone(waiting.since_round, round, state), kTakeStored)));
    it = waiting_.erase(it);
  }
}

void Pulls::End(const Status& why, Outbox* out) {
  for (const auto& [call, waiting] : waiting_) out->Reply(call, why);
  waiting_.clear();
}

}  // namespace ringwood
