#include "client/plan_proposal.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/units.h"
#include "client/checkpoint/state_names.h"
#include "client/replan/plan_file.h"
#include "client/replan/wire_speed.h"
#include "plan/model/cost.h"
#include "plan/turns.h"
#include "plan/warm_up.h"
#include "sparse/codec.h"

namespace ringwood {
namespace {

bool IsOfThisWorld(const v1::SavedPlan& saved, const Place& place) {
  return saved.world() == static_cast<uint32_t>(place.world) &&
         saved.servers() == static_cast<uint32_t>(place.servers);
}

std::string WorldOf(const v1::SavedPlan& saved) {
  return FormatCount(static_cast<int>(saved.world()), "worker") + " and " +
         FormatCount(static_cast<int>(saved.servers()), "server");
}

// Right results in another world, but other costs than it was made for.
StatusOr<Plan> FrozenPlan(const SessionOptions& options, const Place& place,
                          const TensorTable& table) {
  RW_ASSIGN_OR_RETURN(const v1::SavedPlan saved, ReadPlanFile(options.freeze_plan));
  StatusOr<Plan> plan = PlanFor(table.Specs(), saved);
  if (!plan.ok()) return Annotate(plan.status(), options.freeze_plan);
  if (!IsOfThisWorld(saved, place)) {
    Log(LogLevel::kWarning,
        absl::StrFormat("%s was made for %s, here are %d and %d: `ringwood plan` makes one for "
                        "these",
                        options.freeze_plan, WorldOf(saved), place.world, place.servers));
  }
  return plan;
}

// Empty: there is none.
StatusOr<v1::SavedPlan> CheckpointsPlan(Restore* restore) {
  v1::SavedPlan saved;
  if (restore == nullptr) return saved;
  const StatusOr<uint64_t> bytes = restore->Bytes(kPlanItem, true);
  if (bytes.status().code() == StatusCode::kNotFound) return saved;
  RW_RETURN_IF_ERROR(bytes.status());
  std::string text(*bytes, '\0');
  RW_RETURN_IF_ERROR(restore->Read(kPlanItem, true, std::as_writable_bytes(std::span(text))));
  if (!saved.ParseFromString(text)) return Corrupt("the checkpoint's plan cannot be read");
  return saved;
}

// What groups travel as is the options', not the plan's: a job may be resumed for a change of it.
Status FitsWire(const Plan& plan, const SessionOptions& options, const Place& place,
                bool on_device) {
  const std::vector<CodecCost> codecs = on_device ? DeviceCodecs(options.wire, OneEach(place.world))
                                                  : RingCodecs(options.wire, place.world);
  for (const Group& group : plan.groups) {
    if (group.route != "tree") {
      const bool allowed =
          group.codec == kOwnType ||  // only of tensors that are registered for it
          std::any_of(codecs.begin(), codecs.end(),
                      [&group](const CodecCost& codec) { return codec.name == group.codec; });
      if (allowed) continue;
      return Invalid(absl::StrFormat("its dense groups travel as %s, and the wire is %s now",
                                     group.codec, options.wire));
    }
    if (group.codec != options.sparse_codec || group.merge != options.sparse_merge) {
      return Invalid(
          absl::StrFormat("its sparse groups travel as %s with the merge %s, not as %s "
                          "with %s",
                          group.codec, group.merge, options.sparse_codec, options.sparse_merge));
    }
    const bool keeps = options.sparse_keep == 0 || group.merge == "union";
    if (keeps || group.keep == options.sparse_keep) continue;
    return Invalid(absl::StrFormat("its results have %g times the entries of a worker, not %g",
                                   group.keep, options.sparse_keep));
  }
  return OkStatus();
}

// Nothing: it was made for another job than this one.
std::optional<Plan> RestoredPlan(const SessionOptions& options, const Place& place,
                                 const TensorTable& table, const v1::SavedPlan& saved) {
  Status fits;
  if (!IsOfThisWorld(saved, place)) {
    fits = Invalid("it was made for " + WorldOf(saved));
  } else if (saved.plan().planner() != options.planner) {
    fits = Invalid(absl::StrFormat("it was made by the planner %s", saved.plan().planner()));
  } else {
    StatusOr<Plan> plan = PlanFor(table.Specs(), saved);
    fits = plan.ok() ? FitsWire(*plan, options, place, table.IsOnDevice()) : plan.status();
    if (fits.ok()) return *std::move(plan);
  }
  Log(LogLevel::kInfo, "the checkpoint's plan is not used: " + Message(fits));
  return std::nullopt;
}

// Where there is a choice, priced by what they cost this processor.
std::vector<CodecCost> CodecsHere(const std::string& wire, int world) {
  std::vector<CodecCost> codecs = RingCodecs(wire, world);
  if (codecs.size() == 1) return codecs;
  for (CodecCost& codec : codecs) {
    const WireSpeed speed = MeasureWireSpeed(codec.name);
    codec.encode_seconds_per_byte = speed.encode_seconds_per_byte;
    codec.decode_seconds_per_byte = speed.decode_seconds_per_byte;
  }
  return codecs;
}

}  // namespace

int WarmUpStageAfter(uint64_t committed, const SessionOptions& options) {
  return WarmUpStage(committed, static_cast<uint64_t>(options.warmup_steps));
}

PlanInput PlanInputOf(const SessionOptions& options, const Place& place, const Network& network,
                      bool on_device, std::vector<TensorSpec> specs) {
  PlanInput input;
  input.network = network;
  input.tensors = std::move(specs);
  input.world = place.world;
  input.hosts = place.hosts;
  input.servers = place.servers;
  input.node_hosts = place.node_hosts;
  input.on_devices = on_device;
  input.ring_codecs = on_device ? DeviceCodecs(options.wire, HostsOf(input))
                                : CodecsHere(options.wire, place.world);
  input.tree_codec = options.sparse_codec;
  input.entry_bytes = ParseCodec(options.sparse_codec)->EntryBytes();  // Check has read it before
  input.merge = options.sparse_merge;
  input.keep = options.sparse_keep;
  return input;
}

std::vector<TensorSpec> WithKeptRoutes(const TensorTable& table, const v1::SavedPlan& before) {
  std::map<std::string, std::string> routes;  // by name
  for (const v1::Group& group : before.plan().groups()) {
    const bool tree = group.route() == "tree";
    if (!tree && before.world() == 1) continue;
    for (const uint32_t index : group.tensors()) {
      if (index >= static_cast<uint32_t>(before.tensors_size())) continue;
      routes[before.tensors(static_cast<int>(index)).name()] = tree ? "sparse" : "dense";
    }
  }
  std::vector<TensorSpec> specs = table.Specs();
  for (size_t index = 0; index < specs.size(); ++index) {
    const auto route = routes.find(specs[index].name);
    if (route == routes.end() || specs[index].route != "auto") continue;
    if (table.momentum(table.IdOf({static_cast<uint32_t>(index)})) == 0) continue;
    specs[index].route = route->second;
  }
  return specs;
}

StatusOr<Plan> ProposePlan(const SessionOptions& options, const Place& place,
                           const Network& network, const TensorTable& table, Restore* restore,
                           const v1::SavedPlan& before, uint64_t committed) {
  Plan plan;
  plan.planner = options.planner;
  if (table.empty()) return plan;  // steps only vote: a plan without groups
  if (!options.freeze_plan.empty()) {
    RW_ASSIGN_OR_RETURN(plan, FrozenPlan(options, place, table));
    return SplitByTurns(std::move(plan), table.Specs(), table.Turns());
  }
  RW_ASSIGN_OR_RETURN(const v1::SavedPlan saved, CheckpointsPlan(restore));
  std::optional<Plan> restored;
  if (saved.has_plan()) restored = RestoredPlan(options, place, table, saved);
  if (restored) {
    plan = *std::move(restored);
  } else {
    // Another planner may have no such routes.
    const v1::SavedPlan& last = saved.has_plan() ? saved : before;
    const bool keeps = last.plan().planner() == options.planner;
    PlanInput input = PlanInputOf(options, place, network, table.IsOnDevice(),
                                  keeps ? WithKeptRoutes(table, last) : table.Specs());
    RW_ASSIGN_OR_RETURN(plan, MakePlan(options.planner, input));
  }
  plan = SplitByTurns(std::move(plan), table.Specs(), table.Turns());
  return AtStage(std::move(plan), table.Specs(), WarmUpStageAfter(committed, options));
}

v1::SavedPlan SavedPlanOf(const Plan& plan, const TensorTable& table, const Place& place) {
  return ToSave(plan, table.Specs(), place.world, place.servers);
}

}  // namespace ringwood
