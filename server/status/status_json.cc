#include "server/status/status_json.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

using Json = nlohmann::ordered_json;

Json Lane(const v1::LaneReport& lane) {
  return {{"groups", lane.groups()},
          {"bytes", lane.bytes()},
          {"seconds", lane.seconds()},
          {"predicted_seconds", lane.predicted_seconds()},
          {"density", lane.density()}};
}

Json Totals(const v1::MemberReport& totals) {
  return {{"steps", totals.steps()},
          {"skipped_steps", totals.skipped_steps()},
          {"repeated_steps", totals.repeated_steps()},
          {"step_seconds", totals.step_seconds()},
          {"loading_seconds", totals.loading_seconds()},
          {"forward_seconds", totals.forward_seconds()},
          {"backward_seconds", totals.backward_seconds()},
          {"exposed_seconds", totals.exposed_seconds()},
          {"vote_seconds", totals.vote_seconds()},
          {"apply_seconds", totals.apply_seconds()},
          {"predicted_step_seconds", totals.predicted_step_seconds()},
          {"ring", Lane(totals.ring())},
          {"tree", Lane(totals.tree())},
          {"checkpoints", totals.checkpoints()},
          {"checkpoint_failures", totals.checkpoint_failures()},
          {"checkpoint_seconds", totals.checkpoint_seconds()},
          {"checkpoint_step", totals.checkpoint_step()},
          {"resident_bytes", totals.resident_bytes()},
          {"peak_resident_bytes", totals.peak_resident_bytes()},
          {"memory_bound_bytes", totals.memory_bound_bytes()},
          {"memory_limit_bytes", totals.memory_limit_bytes()}};
}

Json Slot(const v1::SlotState& slot) {
  return {{"role", RoleName(slot.role())},
          {"slot", slot.slot()},
          {"host", slot.host()},
          {"node", slot.has_node() ? Json(slot.node()) : Json()},
          {"state", slot.state()},
          {"awaited", slot.awaited()},
          {"straggles", slot.straggles()},
          {"silence_seconds", slot.silence_seconds()},
          {"processes", slot.processes()},
          {"step_seconds", slot.step_seconds()},
          {"exposed_seconds", slot.exposed_seconds()},
          {"late_seconds", slot.late_seconds()},
          {"total_late_seconds", slot.total_late_seconds()},
          {"late_steps", slot.late_steps()},
          {"totals", Totals(slot.totals())}};
}

Json PlanJson(const v1::PlanFacts& plan) {
  Json groups = Json::array();
  for (const v1::PlannedGroup& group : plan.timeline()) {
    groups.push_back({{"group", group.group()},
                      {"route", group.route()},
                      {"tensors", group.tensors()},
                      {"elements", group.elements()},
                      {"k", group.k()},
                      {"density", group.density()},
                      {"start_seconds", group.start_seconds()},
                      {"end_seconds", group.end_seconds()}});
  }
  return {{"planner", plan.planner()},       {"hash", absl::StrFormat("%016x", plan.hash())},
          {"generation", plan.generation()}, {"from_round", plan.from_round()},
          {"tensors", plan.tensors()},       {"elements", plan.elements()},
          {"groups", plan.groups()},         {"predicted_seconds", plan.predicted_seconds()},
          {"timeline", std::move(groups)}};
}

Json EventJson(const v1::JobEvent& event) {
  return {{"unix_seconds", event.unix_seconds()},
          {"level", event.level()},
          {"name", event.name()},
          {"epoch", event.epoch()},
          {"step", event.step()},
          {"slot", event.has_slot() ? Json(event.slot()) : Json()},
          {"text", event.text()}};
}

}  // namespace

std::string RoleName(v1::Role role) {
  return role == v1::ROLE_REDUCER ? "reducer" : role == v1::ROLE_WORKER ? "rank" : "?";
}

std::string NameOfJob(uint64_t job) { return absl::StrFormat("%016x", job); }

std::string ToJson(const v1::StatusResponse& status, int indent) {
  Json members = Json::array(), slots = Json::array();
  for (const v1::Member& member : status.members()) {
    members.push_back({{"node", member.node()},
                       {"role", RoleName(member.role())},
                       {"rank", member.rank()},
                       {"host", member.host()}});
  }
  for (const v1::SlotState& slot : status.slots()) slots.push_back(Slot(slot));
  Json checkpoints = Json::array(), events = Json::array();
  for (const v1::CheckpointFacts& kept : status.checkpoints()) {
    checkpoints.push_back(
        {{"epoch", kept.epoch()}, {"step", kept.step()}, {"unix_seconds", kept.unix_seconds()}});
  }
  for (const v1::JobEvent& event : status.events()) events.push_back(EventJson(event));
  const Json json = {{"job", NameOfJob(status.job())},
                     {"phase", status.phase()},
                     {"epoch", status.epoch()},
                     {"step", status.step()},
                     {"base_step", status.base_step()},
                     {"elastic", status.elastic()},
                     {"unix_seconds", status.unix_seconds()},
                     {"steps_per_second", status.steps_per_second()},
                     {"waiting_for", status.waiting_for()},
                     {"last_failure", status.last_failure()},
                     {"epochs", status.epochs()},
                     {"failures", status.failures()},
                     {"members", std::move(members)},
                     {"slots", std::move(slots)},
                     {"plan", status.has_plan() ? PlanJson(status.plan()) : Json()},
                     {"checkpoints", std::move(checkpoints)},
                     {"completed_checkpoints", status.completed_checkpoints()},
                     {"events", std::move(events)}};
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ringwood
