#include "client/replanner.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/log.h"
#include "client/connection/hop_probe.h"
#include "client/connection/ring_probe.h"
#include "client/plan_proposal.h"
#include "client/replan/live_profile.h"
#include "client/replan/plan_file.h"
#include "dense/hop_cost.h"
#include "plan/strategy/nic.h"
#include "plan/turns.h"
#include "plan/warm_up.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

template <typename T>
std::span<std::byte> RawBytesOf(std::vector<T>* values) {
  return std::as_writable_bytes(std::span(*values));
}

// Small enough to take a fifth of a second at 200 Mbit/s: sizes at which the start-up and the bytes
// both show.
StatusOr<AffineFit> ProbeCost(Collectives* collectives) {
  RW_ASSIGN_OR_RETURN(
      const ProbeResult result,
      ProbeRing(AllReduceOf(collectives), {4 << 10, 64 << 10, 512 << 10}, kEnoughSeconds));
  return result.fit;
}

}  // namespace

Replanner::Replanner(const SessionOptions& options, const TensorTable& table)
    : options_(options), table_(table) {
  if (options_.plan_for != kMeasured) network_ = *ParsePlannedNetwork(options_.plan_for);
}

// A measurement takes a moment: not where others wait to go on, of whom one knows what it was.
Status Replanner::MeasureLink(EpochLink* link) {
  const bool waiting = !link->joined().holders().empty();
  MeasuredLink measured;
  if (waiting) {
    RW_ASSIGN_OR_RETURN(measured, ShareLink(measured_, link));
    RW_RETURN_IF_ERROR(SharePlan(link));
  }
  // Who waits may know nothing: a rank was lost before, or all were on one host. The same on all.
  const bool known = measured != MeasuredLink() || link->place().hosts.size() < 2;
  const bool measures = !waiting || !known;
  if (measures) {
    RW_ASSIGN_OR_RETURN(measured, MeasureDataPlane(link));
  }
  const Network before = network_;
  TakeLink(measured);
  if (measures && options_.rank == 0 && network_ != before) {
    Log(LogLevel::kInfo, "plans are for " + Describe(network_));
  }
  return OkStatus();
}

// Rank 0 plans, and has to know which routes to keep.
Status Replanner::SharePlan(EpochLink* link) {
  const auto& holders = link->joined().holders();
  const int holder = static_cast<int>(*std::min_element(holders.begin(), holders.end()));
  if (holder == 0) return OkStatus();
  std::string plan = before_.SerializeAsString();
  std::array<uint64_t, 1> bytes = {plan.size()};
  RW_RETURN_IF_ERROR(
      link->collectives()->Broadcast(std::as_writable_bytes(std::span(bytes)), holder));
  if (bytes[0] > kMaxPlanBytes) return Corrupt("the plan of the epoch before is too long");
  plan.resize(bytes[0]);
  RW_RETURN_IF_ERROR(
      link->collectives()->Broadcast(std::as_writable_bytes(std::span(plan)), holder));
  if (link->place().rank == 0 && !before_.ParseFromString(plan)) {
    return Corrupt("the plan of the epoch before cannot be read");
  }
  return OkStatus();
}

// All ranks plan for one network: they know one measurement, or have agreed on the option.
void Replanner::TakeDelay(EpochLink* link) const {
  HopCost cost = link->place().cost;
  cost.alpha += network_.delay;
  link->TakeCost(cost);
}

void Replanner::TakeLink(const MeasuredLink& measured) {
  measured_ = measured;
  if (options_.plan_for == kMeasured) network_ = PlannedNetwork(measured);
}

void Replanner::Installed(const Plan& plan, uint32_t generation, uint64_t committed,
                          const Place& place) {
  plan_ = plan;
  before_ = SavedPlanOf(plan_, table_, place);
  first_ = place.rank == 0;
  if (generation == 0) adapter_.reset();  // it was made for another world
  TellDelays(place);
  SavePlan(place);
  const bool adapts = place.rank == 0 && options_.adapt && place.world > 1 && !table_.empty();
  if (!adapts) return;
  if (adapter_ == nullptr) {
    adapter_ = std::make_unique<Adapter>(
        PlanQuestion{options_.planner, InputOf(place), Plan(), 0, AffineFit()});
  }
  adapter_->Adopted(plan_, WarmUpStageAfter(committed, options_));
}

PlanInput Replanner::InputOf(const Place& place) const {
  return PlanInputOf(options_, place, network_, table_.IsOnDevice(),
                     WithKeptRoutes(table_, before_));
}

// A stage of the density warm-up that begins goes before what the adapter wants.
void Replanner::Ask(uint64_t round, const Place& place, v1::VoteRequest* vote) {
  if (place.rank != 0) return;
  const int stage = WarmUpStageAfter(round, options_);  // of the next step
  if (stage != WarmUpStageAfter(round - 1, options_)) {
    const Plan next = AtStage(plan_, table_.Specs(), stage);
    if (Hash(next) == Hash(plan_)) return;
    *vote->mutable_plan() = ToProto(next);
    vote->set_plan_reason(StageText(stage));
    return;
  }
  if (adapter_ == nullptr) return;
  const Adapter::Request request = adapter_->Next(profile_.rounds());
  vote->set_review(request.review);
  vote->set_probe(request.probe);
  if (!request.plan) return;
  *vote->mutable_plan() = ToProto(SplitByTurns(*request.plan, table_.Specs(), table_.Turns()));
  vote->set_plan_reason(request.reason);
}

Status Replanner::AllReduceProfile(bool probe, EpochLink* link) {
  const TimePoint begun = Now();
  // A rank without measurements would not count in the maximum. There is none: all ranks begin a
  // plan at once.
  std::vector<double> maxima(table_.size() + 2 * plan_.groups.size() + 2,
                             -std::numeric_limits<double>::infinity());
  if (profile_.rounds() > 0) maxima = ToMaxima(profile_.Medians());
  RW_RETURN_IF_ERROR(
      link->collectives()->AllReduce(RawBytesOf(&maxima), DataType::kFloat64, ReduceOp::kMax));
  std::optional<Adapter::Probed> probed;
  if (probe) {
    const TimePoint probing = Now();
    RW_ASSIGN_OR_RETURN(const AffineFit ring, ProbeCost(link->collectives()));
    RW_ASSIGN_OR_RETURN(const double hop, ProbeHop(link->collectives(), link->place()));
    RW_RETURN_IF_ERROR(TakeHopCost(link));
    measured_.hop_seconds = hop;
    TellDelays(link->place());
    probed = {ring, ToSeconds(Now() - probing), DelayOf(measured_)};
  }
  if (adapter_ != nullptr) {
    adapter_->Reviewed(FromMaxima(maxima, table_.size(), plan_.groups.size()), probed,
                       ToSeconds(Now() - begun));
  }
  return OkStatus();
}

// All ranks do this after the same round, so that they keep choosing alike.
Status Replanner::TakeHopCost(EpochLink* link) const {
  if (table_.IsOnDevice()) return OkStatus();  // NCCL chooses for itself
  const Place& place = link->place();
  RW_ASSIGN_OR_RETURN(const HopCost cost, ProbeHops(link->collectives(), place));
  link->TakeCost(cost);
  if (place.rank == 0) {
    Log(LogLevel::kInfo, "dense groups: " + DescribeSwitches(cost, place.hosts, options_.wire));
  }
  return OkStatus();
}

void Replanner::TellDelays(const Place& place) {
  Network network = network_;
  network.delay = DelayOf(measured_);
  const Hosts hosts = place.hosts.empty() ? OneEach(place.world) : place.hosts;
  profile_.TakeDelays(
      GroupDelays(plan_, table_.Specs(), network, hosts, place.servers, place.node_hosts));
}

void Replanner::SavePlan(const Place& place) const {
  if (place.rank != 0 || options_.save_plan.empty()) return;
  const Status written = WritePlanFile(before_, options_.save_plan);
  if (!written.ok()) Log(LogLevel::kWarning, Message(written));
}

void Replanner::WriteProfile() const {
  if (!first_ || options_.profile.empty()) return;
  Status written = Refused("it takes two steps with one plan");
  if (profile_.rounds() > 0) {
    written =
        WriteModelProfile(LiveProfile(table_.Specs(), plan_, profile_.Medians()), options_.profile);
  }
  if (!written.ok()) Log(LogLevel::kWarning, "no profile was written: " + Message(written));
}

}  // namespace ringwood
