// Membership looking at the clock: silence, ranks that end early, epochs that stand still. And what
// it answers to who asks how the job stands.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/coordinator/membership.h"

namespace ringwood {
namespace {

constexpr size_t kMostNamed = 8;  // ranks in a line; of more their number

}  // namespace

bool Membership::Started() const {
  return committed_ > record_.base_step() ||
         std::all_of(members_.begin(), members_.begin() + world(),
                     [](const Member& worker) { return worker.begun; });
}

// A host that starts many processes may let one wait for long: until the first step is taken,
// silence has the join timeout. A stream that breaks is a death from the beginning.
void Membership::LookForSilence() {
  const double limit =
      Started() ? options_.failure_timeout_seconds
                : std::max(options_.failure_timeout_seconds, options_.join_timeout_seconds);
  for (uint32_t node = 0; node < members_.size(); ++node) {
    const Member& member = members_[node];
    const double silence = ToSeconds(now_ - member.heard);
    if (member.left || silence <= limit) continue;
    return Fail(
        node, StatusCode::kUnavailable,
        absl::StrFormat("%s for %.1f s",
                        member.stream == 0 ? "it joined but never attended," : "silent", silence));
  }
}

// All leave within moments of each other after the last step. Who still has gradients ready for
// another one then would wait for ever. Told before a broken connection is taken for a death.
void Membership::LookForEarlyEnd() {
  if (activated_ == nullptr || now_ - left_ < Seconds(options_.failure_timeout_seconds / 2)) return;
  const auto workers = members_.begin() + world();
  const auto left = std::find_if(members_.begin(), workers, [](const Member& m) { return m.left; });
  const bool others = std::any_of(members_.begin(), workers, [this](const Member& member) {
    return !member.left && ReadyInStep(member) > 0;
  });
  if (left != workers && others) EndedEarly(static_cast<uint32_t>(left - members_.begin()));
}

void Membership::LookForStall() {
  const std::optional<Duration> due = watch_.Due(now_);
  const double still = ToSeconds(watch_.Still(now_));
  const double limit = options_.stall_timeout_seconds;
  const bool over = limit > 0 && still > limit;
  if (!due && !over) return;
  const Held held = WhoHolds();
  const std::optional<Duration> median = watch_.MedianStep();
  const std::string text = absl::StrFormat(
      "step %d has stood still for %.1f s%s: %s", committed_ + 1, still,
      median ? absl::StrFormat(" (a step takes %.2g s)", ToSeconds(*median)) : "", held.text);
  if (!over) return Say(text, LogLevel::kWarning);
  Fail(held.ranks.size() == 1 ? held.ranks[0] : static_cast<uint32_t>(members_.size()),
       StatusCode::kDeadlineExceeded, absl::StrFormat("%s (--stall-timeout %g)", text, limit));
}

uint64_t Membership::ReadyInStep(const Member& worker) const {
  if (activated_ == nullptr) return 0;
  const auto tensors = static_cast<uint64_t>(activated_->tensors_size());
  const uint64_t before = (committed_ - record_.base_step()) * tensors;
  return worker.progress > before ? std::min(worker.progress - before, tensors) : 0;
}

Membership::Held Membership::WhoHolds() const {
  std::vector<uint32_t> ranks;
  if (ballot_ != nullptr) {
    ranks = ballot_->Missing();
  } else if (activated_ == nullptr && agreement_ != nullptr) {
    ranks = agreement_->Missing();
  } else {
    for (uint32_t rank = 0; rank < world(); ++rank) ranks.push_back(rank);
  }
  // Of those, who is behind the others.
  const auto less = [this](uint32_t a, uint32_t b) {
    return members_[a].progress < members_[b].progress;
  };
  const bool all = ranks.size() == world();
  uint64_t least = 0;
  if (!ranks.empty()) {
    const auto [low, high] = std::minmax_element(ranks.begin(), ranks.end(), less);
    least = members_[*low].progress;
    if (all && least == members_[*high].progress && activated_ != nullptr &&
        ReadyInStep(members_[*low]) == static_cast<uint64_t>(activated_->tensors_size())) {
      return {{},
              "every rank has its gradients ready, none has the result: look at the network "
              "between the hosts"};
    }
  }
  std::erase_if(ranks, [&](uint32_t rank) { return members_[rank].progress > least; });
  std::vector<std::string> names;
  for (size_t i = 0; i < ranks.size() && i < kMostNamed; ++i) names.push_back(LabelOf(ranks[i]));
  if (ranks.size() > kMostNamed) {
    names.push_back(absl::StrFormat("%d more", ranks.size() - kMostNamed));
  }
  std::string text = "waiting for " + absl::StrJoin(names, ", ");
  if (activated_ == nullptr) {
    text += " to register its tensors";
  } else if (!ranks.empty()) {
    text += absl::StrFormat(", %d of %d gradients ready", ReadyInStep(members_[ranks[0]]),
                            activated_->tensors_size());
  }
  return {ranks, text};
}

std::string Membership::WaitingText() const {
  switch (phase_) {
    case Phase::kWaiting:
    case Phase::kFailed:
      return room_.Progress();
    case Phase::kOpening:
      return "all joined, the store looks for the checkpoint to begin with";
    case Phase::kRunning:
      return WhoHolds().text;
    case Phase::kStopped:
      break;
  }
  return "";
}

v1::StatusResponse Membership::Describe() const {
  v1::StatusResponse status;
  status.set_epoch(record_.epoch());
  status.set_step(committed_);
  status.set_phase(phase_ == Phase::kRunning  ? "running"
                   : phase_ == Phase::kFailed ? "failed"
                                              : "waiting");
  if (phase_ == Phase::kRunning || phase_ == Phase::kFailed) {
    *status.mutable_members() = WelcomeTo(0).members();
    for (v1::Member& member : *status.mutable_members()) member.clear_fabric_address();
  }
  status.set_waiting_for(WaitingText());
  if (const std::optional<uint32_t> first = room_.FirstWorker()) status.set_first_waiting(*first);
  if (!failure_.reason().empty()) {
    status.set_last_failure(Message(FailureStatus()));
    *status.mutable_failure() = failure_;
  }
  return status;
}

}  // namespace ringwood
