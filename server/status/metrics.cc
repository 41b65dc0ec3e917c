#include "server/status/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "absl/strings/str_format.h"
#include "server/status/status_json.h"

namespace ringwood {
namespace {

using Values = std::vector<MetricValue>;
using JobStatus = v1::StatusResponse;
using prometheus::MetricType;

std::vector<std::pair<std::string, std::string>> LabelsOf(const v1::SlotState& slot) {
  return {{"role", RoleName(slot.role())}, {"slot", std::to_string(slot.slot())}};
}

// One value a slot; `ranks`: of ranks only.
template <typename Read>
Values OfSlots(const JobStatus& status, bool ranks, Read read) {
  Values values;
  for (const v1::SlotState& slot : status.slots()) {
    if (ranks && slot.role() != v1::ROLE_WORKER) continue;
    values.push_back({LabelsOf(slot), static_cast<double>(read(slot))});
  }
  return values;
}
template <uint64_t (v1::MemberReport::*read)() const>
Values Total(const JobStatus& status) {
  return OfSlots(status, true, [](const v1::SlotState& s) { return (s.totals().*read)(); });
}
template <double (v1::MemberReport::*read)() const>
Values Total(const JobStatus& status) {
  return OfSlots(status, true, [](const v1::SlotState& s) { return (s.totals().*read)(); });
}
template <uint64_t (v1::MemberReport::*read)() const>
Values OfEvery(const JobStatus& status) {
  return OfSlots(status, false, [](const v1::SlotState& s) { return (s.totals().*read)(); });
}

// One value a rank and lane.
template <typename Read>
Values OfLanes(const JobStatus& status, Read read) {
  Values values;
  for (const v1::SlotState& slot : status.slots()) {
    if (slot.role() != v1::ROLE_WORKER) continue;
    for (const bool tree : {false, true}) {
      auto labels = LabelsOf(slot);
      labels.emplace_back("lane", tree ? "tree" : "ring");
      const v1::LaneReport& lane = tree ? slot.totals().tree() : slot.totals().ring();
      values.push_back({std::move(labels), static_cast<double>(read(lane))});
    }
  }
  return values;
}

Values Phases(const JobStatus& status) {
  Values values;
  for (const v1::SlotState& slot : status.slots()) {
    if (slot.role() != v1::ROLE_WORKER) continue;
    const v1::MemberReport& totals = slot.totals();
    const std::pair<const char*, double> phases[] = {
        {"loading", totals.loading_seconds()},   {"forward", totals.forward_seconds()},
        {"backward", totals.backward_seconds()}, {"exposed", totals.exposed_seconds()},
        {"vote", totals.vote_seconds()},         {"apply", totals.apply_seconds()}};
    for (const auto& [name, seconds] : phases) {
      auto labels = LabelsOf(slot);
      labels.emplace_back("phase", name);
      values.push_back({std::move(labels), seconds});
    }
  }
  return values;
}

// Of who is gone, left or away the age would grow for as long as the job runs, and alarm.
Values HeartbeatAges(const JobStatus& status) {
  Values values;
  for (const v1::SlotState& slot : status.slots()) {
    if (slot.state() != "present" && slot.state() != "silent") continue;
    values.push_back({LabelsOf(slot), slot.silence_seconds()});
  }
  return values;
}

Values JobPhases(const JobStatus& status) {
  Values values;
  for (const char* phase : {"waiting", "running", "failed", "recovering", "reattaching"}) {
    values.push_back({{{"phase", phase}}, status.phase() == phase ? 1.0 : 0.0});
  }
  return values;
}

Values Members(const JobStatus& status) {
  Values values;
  for (const v1::Role role : {v1::ROLE_WORKER, v1::ROLE_REDUCER}) {
    for (const char* state : {"present", "silent", "gone", "left", "away"}) {
      double count = 0;
      for (const v1::SlotState& slot : status.slots()) {
        count += slot.role() == role && slot.state() == state;
      }
      values.push_back({{{"role", RoleName(role)}, {"state", state}}, count});
    }
  }
  return values;
}

Values PlanInfo(const JobStatus& status) {
  if (!status.has_plan()) return {};
  return {{{{"planner", status.plan().planner()},
            {"hash", absl::StrFormat("%016x", status.plan().hash())},
            {"generation", std::to_string(status.plan().generation())}},
           1}};
}

Values PlanSeconds(const JobStatus& status) {
  if (!status.has_plan()) return {};
  return {{{}, status.plan().predicted_seconds()}};
}
Values PlanElements(const JobStatus& status) {
  if (!status.has_plan()) return {};
  return {{{}, static_cast<double>(status.plan().elements())}};
}
Values PlanGroups(const JobStatus& status) {
  if (!status.has_plan()) return {};
  return {{{}, static_cast<double>(status.plan().groups())}};
}

Values CheckpointStep(const JobStatus& status) {
  if (status.checkpoints().empty()) return {};
  return {{{}, static_cast<double>(status.checkpoints(0).step())}};
}
Values CheckpointTime(const JobStatus& status) {
  if (status.checkpoints().empty() || status.checkpoints(0).unix_seconds() == 0) return {};
  return {{{}, status.checkpoints(0).unix_seconds()}};
}

template <uint64_t (JobStatus::*read)() const>
Values OfJob(const JobStatus& status) {
  return {{{}, static_cast<double>((status.*read)())}};
}

using Report = v1::MemberReport;
constexpr MetricType kCounter = MetricType::Counter;
constexpr MetricType kGauge = MetricType::Gauge;
constexpr char kSlot[] = "role, slot";
constexpr char kLane[] = "role, slot, lane";

const Metric kMetrics[] = {
    {"ringwood_epoch", kGauge, "", "Number of the newest epoch", OfJob<&JobStatus::epoch>},
    {"ringwood_step", kGauge, "", "Last committed step of the job", OfJob<&JobStatus::step>},
    {"ringwood_job_phase", kGauge, "phase", "1 for the phase that the job is in", JobPhases},
    {"ringwood_members", kGauge, "role, state", "Slots of the job by their state", Members},
    {"ringwood_epochs_total", kCounter, "", "Epochs that began since the coordinator was started",
     OfJob<&JobStatus::epochs>},
    {"ringwood_failures_total", kCounter, "",
     "Epochs that ended by a failure since the coordinator was started",
     OfJob<&JobStatus::failures>},
    {"ringwood_checkpoints_completed_total", kCounter, "",
     "Checkpoints that were completed since the coordinator was started",
     OfJob<&JobStatus::completed_checkpoints>},
    {"ringwood_checkpoint_step", kGauge, "", "Step of the newest complete checkpoint",
     CheckpointStep},
    {"ringwood_checkpoint_timestamp_seconds", kGauge, "",
     "Unix time at which the newest checkpoint was completed", CheckpointTime},
    {"ringwood_plan_info", kGauge, "planner, hash, generation", "1 for the plan in force",
     PlanInfo},
    {"ringwood_plan_groups", kGauge, "", "Groups of the plan in force", PlanGroups},
    {"ringwood_plan_elements", kGauge, "", "Elements of all tensors", PlanElements},
    {"ringwood_plan_predicted_step_seconds", kGauge, "",
     "Seconds of a step as the plan in force predicts them", PlanSeconds},
    {"ringwood_steps_total", kCounter, kSlot, "Steps that the rank applied, skipped ones too",
     Total<&Report::steps>},
    {"ringwood_steps_skipped_total", kCounter, kSlot,
     "Steps of which nothing was applied, as a NaN or Inf was met", Total<&Report::skipped_steps>},
    {"ringwood_steps_repeated_total", kCounter, kSlot,
     "Times that a step was exchanged again in another epoch", Total<&Report::repeated_steps>},
    {"ringwood_step_seconds_total", kCounter, kSlot, "Seconds of the rank's applied steps",
     Total<&Report::step_seconds>},
    {"ringwood_step_phase_seconds_total", kCounter, "role, slot, phase",
     "Seconds of the rank's applied steps by phase; exposed is exchange that backward does not "
     "hide",
     Phases},
    {"ringwood_step_predicted_seconds_total", kCounter, kSlot,
     "Seconds of the same steps as the plans in force predicted them",
     Total<&Report::predicted_step_seconds>},
    {"ringwood_sent_bytes_total", kCounter, kLane, "Bytes of gradients that the rank sent",
     [](const JobStatus& s) { return OfLanes(s, [](const auto& lane) { return lane.bytes(); }); }},
    {"ringwood_groups_total", kCounter, kLane, "Groups that the rank exchanged",
     [](const JobStatus& s) { return OfLanes(s, [](const auto& lane) { return lane.groups(); }); }},
    {"ringwood_exchange_seconds_total", kCounter, kLane,
     "Seconds in which the rank exchanged a group of this lane",
     [](const JobStatus& s) {
       return OfLanes(s, [](const auto& lane) { return lane.seconds(); });
     }},
    {"ringwood_exchange_predicted_seconds_total", kCounter, kLane,
     "Seconds of the same groups as the plans in force predicted them",
     [](const JobStatus& s) {
       return OfLanes(s, [](const auto& lane) { return lane.predicted_seconds(); });
     }},
    {"ringwood_density_ratio", kGauge, kLane,
     "Entries that the plan in force sends, of all elements of the lane",
     [](const JobStatus& s) {
       return OfLanes(s, [](const auto& lane) { return lane.density(); });
     }},
    {"ringwood_late_seconds_total", kCounter, kSlot,
     "Seconds by which the rank's last gradient came after the first rank's",
     [](const JobStatus& s) {
       return OfSlots(s, true, [](const auto& slot) { return slot.total_late_seconds(); });
     }},
    {"ringwood_late_steps_total", kCounter, kSlot, "Steps whose lateness is known",
     [](const JobStatus& s) {
       return OfSlots(s, true, [](const auto& slot) { return slot.late_steps(); });
     }},
    {"ringwood_straggler", kGauge, kSlot, "1 where the rank holds the others up in its last steps",
     [](const JobStatus& s) {
       return OfSlots(s, true, [](const auto& slot) { return !slot.straggles().empty(); });
     }},
    {"ringwood_awaited", kGauge, kSlot, "1 where the others wait for the rank",
     [](const JobStatus& s) {
       return OfSlots(s, true, [](const auto& slot) { return slot.awaited(); });
     }},
    {"ringwood_heartbeat_age_seconds", kGauge, kSlot,
     "Seconds since the last heartbeat, of members that are present or silent", HeartbeatAges},
    {"ringwood_processes_total", kCounter, kSlot, "Processes of the slot that took part",
     [](const JobStatus& s) {
       return OfSlots(s, false, [](const auto& slot) { return slot.processes(); });
     }},
    {"ringwood_checkpoint_parts_total", kCounter, kSlot,
     "Checkpoints that were completed with the rank's part", Total<&Report::checkpoints>},
    {"ringwood_checkpoint_failures_total", kCounter, kSlot,
     "Checkpoints of the rank that could not be completed", Total<&Report::checkpoint_failures>},
    {"ringwood_checkpoint_seconds_total", kCounter, kSlot,
     "Seconds from the copy of a checkpoint to its completion", Total<&Report::checkpoint_seconds>},
    {"ringwood_resident_memory_bytes", kGauge, kSlot, "Resident memory of the process",
     OfEvery<&Report::resident_bytes>},
    {"ringwood_resident_memory_peak_bytes", kGauge, kSlot, "Most resident memory so far",
     OfEvery<&Report::peak_resident_bytes>},
    {"ringwood_memory_bound_bytes", kGauge, kSlot,
     "What Ringwood may take: ranks for the copy of a checkpoint, reducers for the plan in force",
     OfEvery<&Report::memory_bound_bytes>},
    {"ringwood_memory_limit_bytes", kGauge, kSlot, "Limit of a reducer (--max-memory); 0: none",
     OfEvery<&Report::memory_limit_bytes>},
};

prometheus::ClientMetric OneOf(const Metric& metric, const MetricValue& value,
                               const std::string& job) {
  prometheus::ClientMetric one;
  one.label.push_back({"job", job});
  for (const auto& [name, text] : value.labels) one.label.push_back({name, text});
  (metric.type == kCounter ? one.counter.value : one.gauge.value) = value.value;
  return one;
}

}  // namespace

std::span<const Metric> Metrics() { return kMetrics; }

std::string MetricsText(std::span<const v1::StatusResponse> jobs) {
  std::vector<prometheus::MetricFamily> families;
  for (const Metric& metric : kMetrics) {
    prometheus::MetricFamily family;
    family.name = metric.name;
    family.help = metric.help;
    family.type = metric.type;
    for (const v1::StatusResponse& status : jobs) {
      const std::string job = status.name().empty() ? NameOfJob(status.job()) : status.name();
      for (const MetricValue& value : metric.values(status)) {
        family.metric.push_back(OneOf(metric, value, job));
      }
    }
    if (!family.metric.empty()) families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::string MetricsText(const v1::StatusResponse& status) { return MetricsText({&status, 1}); }

std::string MetricsTable() {
  std::string table = "| metric | type | labels besides `job` | what it is |\n|---|---|---|---|\n";
  for (const Metric& metric : kMetrics) {
    absl::StrAppendFormat(&table, "| `%s` | %s | %s | %s |\n", metric.name,
                          metric.type == kCounter ? "counter" : "gauge", metric.labels,
                          metric.help);
  }
  return table;
}

}  // namespace ringwood
