#include "plan/predict/show.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quoted.h"
#include "base/units.h"

namespace ringwood {
namespace {

double BytesOf(const Group& group, const PlanInput& input) {
  if (group.route == "tree") return input.entry_bytes * static_cast<double>(group.k);
  return DenseBytes(input.tensors, group.tensors);
}

const PlannedStep* Find(const std::vector<PlannedStep>& steps, const std::string& planner) {
  for (const PlannedStep& step : steps) {
    if (step.plan.planner == planner) return &step;
  }
  return nullptr;
}

std::string SpeedUp(const PlannedStep* base, const PlannedStep& step) {
  if (base == nullptr || step.iteration_seconds <= 0) return "-";
  return absl::StrFormat("%.3f", base->iteration_seconds / step.iteration_seconds);
}

// A thread of the trace. Its spans must not overlap, so what runs at the same time in one stream
// (selections; messages that are on the way) has several: "select", "select 2", …
struct TraceThread {
  std::string stream;
  std::string name;
  double end_seconds = 0;
};

// The first of its stream that is free; for nodes in order of their starts.
size_t TakeThread(const StepNode& node, std::vector<TraceThread>* rows) {
  constexpr double kClose = 1e-9;  // ends and starts are sums of the same times
  int before = 0;
  for (size_t r = 0; r < rows->size(); ++r) {
    TraceThread& row = (*rows)[r];
    if (row.stream != node.stream) continue;
    ++before;
    if (row.end_seconds > node.start_seconds + kClose) continue;
    row.end_seconds = node.end_seconds;
    return r;
  }
  const std::string number = before == 0 ? "" : absl::StrCat(" ", before + 1);
  rows->push_back({node.stream, node.stream + number, node.end_seconds});
  return rows->size() - 1;
}

}  // namespace

StatusOr<PlannedStep> PlanStep(const std::string& planner, const PlanInput& input) {
  PlannedStep step;
  RW_ASSIGN_OR_RETURN(step.plan, MakePlan(planner, input));
  const std::vector<double> ready =
      input.ready_seconds.empty() ? FixedProfile(input.tensors) : input.ready_seconds;
  step.backward_seconds = ready.empty() ? 0 : ready.back();
  step.end_seconds = 0;
  for (const Group& group : step.plan.groups) {
    step.end_seconds = std::max(step.end_seconds, group.end_seconds);
  }
  step.iteration_seconds = step.plan.predicted_seconds;
  step.exposed_seconds =
      std::max(0.0, step.iteration_seconds - input.forward_seconds - step.backward_seconds);
  if (planner != "dear") step.exposed_seconds = step.end_seconds - step.backward_seconds;
  return step;
}

std::string ToJson(const PlannedStep& step, const PlanInput& input) {
  std::string json = absl::StrFormat(
      "{\"planner\": %s,\n \"backward_seconds\": %.17g,\n \"end_seconds\": %.17g,\n"
      " \"exposed_seconds\": %.17g,\n \"iteration_seconds\": %.17g,\n \"groups\": [",
      JsonString(step.plan.planner), step.backward_seconds, step.end_seconds, step.exposed_seconds,
      step.iteration_seconds);
  for (size_t g = 0; g < step.plan.groups.size(); ++g) {
    const Group& group = step.plan.groups[g];
    const bool whole = group.tensors.size() == group.tensors.back() - group.tensors.front() + 1;
    absl::StrAppendFormat(
        &json,
        "%s\n  {\"first\": %d, \"last\": %d, \"bytes\": %.17g, \"route\": %s, \"density\": %.17g, "
        "\"start_seconds\": %.17g, \"end_seconds\": %.17g, \"codec\": %s, \"k\": %d, \"reason\": "
        "%s",
        g == 0 ? "" : ",", group.tensors.front(), group.tensors.back(), BytesOf(group, input),
        JsonString(group.route), group.density, group.start_seconds, group.end_seconds,
        JsonString(group.codec), group.k, JsonString(group.reason));
    if (!whole) {  // tensors of the other lane lie between
      absl::StrAppend(&json, ", \"tensors\": ", nlohmann::json(group.tensors).dump());
    }
    absl::StrAppend(&json, "}");
  }
  absl::StrAppend(&json, "]}");
  return json;
}

std::string ToTable(const std::vector<PlannedStep>& steps) {
  const PlannedStep* wfbp = Find(steps, "wfbp");
  const PlannedStep* single = Find(steps, "single");
  std::string text = absl::StrFormat("%-11s %12s %12s %12s %7s %10s %10s\n", "planner", "iteration",
                                     "comm. end", "exposed", "groups", "over wfbp", "over single");
  for (const PlannedStep& step : steps) {
    absl::StrAppendFormat(&text, "%-11s %12s %12s %12s %7d %10s %10s\n", step.plan.planner,
                          FormatSeconds(step.iteration_seconds), FormatSeconds(step.end_seconds),
                          FormatSeconds(step.exposed_seconds), step.plan.groups.size(),
                          SpeedUp(wfbp, step), SpeedUp(single, step));
  }
  return text;
}

std::string ToChromeTrace(const StepGraph& graph, const std::string& process) {
  std::vector<const StepNode*> nodes;
  for (const StepNode& node : graph.nodes) nodes.push_back(&node);
  std::stable_sort(nodes.begin(), nodes.end(), [](const StepNode* a, const StepNode* b) {
    return a->start_seconds < b->start_seconds;
  });
  std::vector<TraceThread> rows;
  std::string events;
  for (const StepNode* node : nodes) {
    absl::StrAppendFormat(&events,
                          ",\n{\"name\": %s, \"cat\": %s, \"ph\": \"X\", \"ts\": %.17g, \"dur\": "
                          "%.17g, \"pid\": 0, \"tid\": %d, \"args\": {\"critical\": %s}}",
                          JsonString(node->name), JsonString(node->stream),
                          node->start_seconds * 1e6, node->seconds * 1e6, TakeThread(*node, &rows),
                          node->critical ? "true" : "false");
  }
  std::string names =
      absl::StrCat("{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"name\": ",
                   JsonString(process), "}}");
  for (size_t r = 0; r < rows.size(); ++r) {
    absl::StrAppend(&names,
                    ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 0, \"tid\": ", r,
                    ", \"args\": {\"name\": ", JsonString(rows[r].name), "}}");
  }
  return absl::StrCat("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", names, events,
                      "\n]}\n");
}

}  // namespace ringwood
