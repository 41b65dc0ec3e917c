// Session's half that follows what is measured: after a commit all ranks bring together what they
// measured, and start the plan that came with it.
#include <limits>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "client/connection/hop_probe.h"
#include "client/replan/live_profile.h"
#include "client/replan/plan_file.h"
#include "client/session.h"
#include "dense/hop_cost.h"
#include "plan/model/probe.h"
#include "plan/strategy/planner.h"
#include "plan/warm_up.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

template <typename T>
std::span<std::byte> RawBytesOf(std::vector<T>* values) {
  return std::as_writable_bytes(std::span(*values));
}

}  // namespace

int Session::StageAfter(uint64_t committed) const {
  return WarmUpStage(committed, static_cast<uint64_t>(options_.warmup_steps));
}

// A stage of the density warm-up that begins goes before what the adapter wants.
void Session::AskFor(v1::VoteRequest* vote) {
  if (rank() != 0) return;
  const int stage = StageAfter(round_);  // of the next step
  if (stage != StageAfter(step_)) {
    const Plan next = AtStage(plan_.plan(), table_.Specs(), stage);
    if (Hash(next) != Hash(plan_.plan())) {
      *vote->mutable_plan() = ToProto(next);
      vote->set_plan_reason(StageText(stage));
    }
    return;
  }
  if (adapter_ == nullptr) return;
  const Adapter::Request request = adapter_->Next(profile_.rounds());
  vote->set_review(request.review);
  vote->set_probe(request.probe);
  if (!request.plan) return;
  *vote->mutable_plan() = ToProto(*request.plan);
  vote->set_plan_reason(request.reason);
}

Status Session::Follow(const v1::Commit& commit) {
  if (commit.review()) RW_RETURN_IF_ERROR(BringTogether(commit.probe()));
  return commit.has_plan() ? ChangePlan(commit) : OkStatus();
}

Status Session::BringTogether(bool probe) {
  // A rank that has not measured has no say in a maximum. It cannot be: all begin a plan at once.
  std::vector<double> maxima(table_.size() + 2 * plan_.plan().groups.size() + 2,
                             -std::numeric_limits<double>::infinity());
  if (profile_.rounds() > 0) maxima = ToMaxima(profile_.Medians());
  RW_RETURN_IF_ERROR(
      collectives_->AllReduce(RawBytesOf(&maxima), DataType::kFloat64, ReduceOp::kMax));
  std::optional<AffineFit> ring;
  if (probe) {
    RW_ASSIGN_OR_RETURN(ring, ProbeRing());
    RW_RETURN_IF_ERROR(TakeHopCost());
  }
  if (adapter_ != nullptr) {
    adapter_->Reviewed(FromMaxima(maxima, table_.size(), plan_.plan().groups.size()), ring);
  }
  return OkStatus();
}

// Small enough to take a fifth of a second at 200 Mbit/s: sizes at which the start-up and the bytes
// both show. All ranks run all rounds, since they would not agree on when time is up.
StatusOr<AffineFit> Session::ProbeRing() {
  ProbeOptions options;
  options.sizes = {4 << 10, 64 << 10, 512 << 10};
  options.repeats = 3;
  options.limit_seconds = kLongestWaitSeconds;
  std::vector<float> data(options.sizes.back() / sizeof(float));
  std::vector<int32_t> here(1);
  const auto message = [&](uint64_t bytes) -> StatusOr<double> {
    RW_RETURN_IF_ERROR(
        collectives_->AllReduce(RawBytesOf(&here), DataType::kInt32, ReduceOp::kSum));
    const TimePoint start = Now();
    RW_RETURN_IF_ERROR(collectives_->AllReduce(RawBytesOf(&data).first(bytes), DataType::kFloat32,
                                               ReduceOp::kSum));
    return ToSeconds(Now() - start);
  };
  RW_ASSIGN_OR_RETURN(const ProbeResult result, Probe(message, options));
  return result.fit;
}

// All ranks do this after the same round, so that they go on choosing alike.
Status Session::TakeHopCost() {
  if (table_.IsOnDevice()) return OkStatus();  // NCCL chooses for itself
  const Place& place = connection_->place();
  RW_ASSIGN_OR_RETURN(const HopCost cost, ProbeHops(collectives_.get(), place));
  connection_->TakeCost(cost);
  if (rank() == 0) {
    Log(LogLevel::kInfo,
        "dense groups: " + DescribeSwitches(cost, place.hosts, options_.wire == "bf16" ? 0.5 : 1));
  }
  return OkStatus();
}

Status Session::ChangePlan(const v1::Commit& commit) {
  StatusOr<Plan> plan = FromProto(commit.plan());
  Status status = plan.status();
  if (status.ok()) status = Validate(*plan, table_.Specs());
  if (status.ok()) {
    connection_->Drain();  // the callbacks of the pipeline that ends
    status = CatchOutOfMemory([&] { return Install(*std::move(plan), commit.generation()); });
    if (status.ok()) status = plan_.Start();
  }
  if (!status.ok()) {
    connection_->Fail(Annotate(status, absl::StrFormat("rank %d: the new plan", rank())));
  }
  return status;
}

void Session::SavePlan() {
  if (rank() != 0 || options_.save_plan.empty()) return;
  const Status written =
      WritePlanFile(ToSave(plan_.plan(), table_.Specs(), world(), connection_->place().servers),
                    options_.save_plan);
  if (!written.ok()) Log(LogLevel::kWarning, Message(written));
}

void Session::WriteProfile() {
  if (rank() != 0 || options_.profile.empty()) return;
  Status written = Refused("it takes two steps with one plan");
  if (profile_.rounds() > 0) {
    written = WriteModelProfile(LiveProfile(table_.Specs(), plan_.plan(), profile_.Medians()),
                                options_.profile);
  }
  if (!written.ok()) Log(LogLevel::kWarning, "no profile was written: " + Message(written));
}

}  // namespace ringwood
