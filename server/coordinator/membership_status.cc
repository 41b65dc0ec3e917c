// What the status page and `ringwood status` show of an epoch and of who waits for one.
#include <algorithm>
#include <string>
#include <vector>

#include "server/coordinator/epoch/plan_facts.h"
#include "server/coordinator/membership.h"

namespace ringwood {

std::string Membership::WaitingText() const {
  switch (phase_) {
    case Phase::kReattaching:
      return reattachment_ ? reattachment_->Progress() : "";
    case Phase::kWaiting:
    case Phase::kFailed:
      return gathering_.Progress(AwaitedNow(), now_);
    case Phase::kOpening:
      return "all joined, the store looks for the checkpoint to begin with";
    case Phase::kRunning:
      return epoch_->WhoHolds();
    case Phase::kStopped:
      break;
  }
  return "";
}

// The members' slots, which the board completes, and the plan.
void Membership::DescribeEpoch(v1::StatusResponse* status) const {
  const Roster& roster = epoch_->roster();
  const std::vector<uint32_t> awaited =
      phase_ == Phase::kRunning ? epoch_->HeldUpBy() : std::vector<uint32_t>();
  for (uint32_t node = 0; node < roster.size(); ++node) {
    v1::SlotState* const slot = status->add_slots();
    slot->set_role(roster.member(node).role());
    slot->set_slot(roster.member(node).rank());
    slot->set_host(roster.member(node).host());
    slot->set_node(node);
    slot->set_awaited(std::find(awaited.begin(), awaited.end(), node) != awaited.end());
  }
  status->set_base_step(epoch_->record().base_step());
  if (epoch_->plan() != nullptr) *status->mutable_plan() = FactsOf(*epoch_->plan());
}

v1::StatusResponse Membership::Describe() const {
  v1::StatusResponse status;
  status.set_epoch(epoch());
  status.set_step(CommittedRound());
  status.set_phase(phase_ == Phase::kRunning       ? "running"
                   : phase_ == Phase::kReattaching ? "reattaching"
                   : Recovers()                    ? "recovering"
                   : phase_ == Phase::kFailed      ? "failed"
                                                   : "waiting");
  if (HasMembers()) {
    *status.mutable_members() = epoch_->WelcomeTo(0).members();
    for (v1::Member& member : *status.mutable_members()) {
      member.clear_fabric_address();
      member.clear_store_address();
    }
    DescribeEpoch(&status);
  }
  status.set_job(gathering_.record().job());
  status.set_elastic(options_.elastic);
  status.set_waiting_for(WaitingText());
  if (const auto first = gathering_.FirstWorker()) status.set_first_waiting(*first);
  if (epoch_ && !epoch_->failure().reason().empty() && !epoch_->regrouped()) {
    status.set_last_failure(Message(epoch_->FailureStatus()));
    *status.mutable_failure() = epoch_->failure();
  }
  return status;
}

}  // namespace ringwood
