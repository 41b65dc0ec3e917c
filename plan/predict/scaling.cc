#include "plan/predict/scaling.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/quoted.h"
#include "base/units.h"
#include "plan/predict/show.h"
#include "plan/strategy/problem.h"

namespace ringwood {

namespace {

// When the next forward is through, from the start of backward: it waits for DeAR's gathers group
// by group, the first layers' first. -1: the plan has no gathers.
double NextForwardEnd(const Problem& problem, const Plan& plan, const Outcome& outcome,
                      double backward_end, double slowest) {
  const std::vector<double> forward = ForwardSeconds(problem);
  double now = -1;
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    if (group.route != "all-gather") continue;
    now = std::max({now, backward_end, outcome.end_seconds[g]});
    for (const uint32_t t : group.tensors) now += forward[t] * slowest;
  }
  return now;
}

bool SelectsOnCompute(const std::string& planner) {
  return planner == "omgs" || planner == "omgs-exact";
}

}  // namespace

StatusOr<ScalingPoint> ScaleTo(int workers, const std::string& planner, const PlanInput& input,
                               const std::vector<NodeSpeed>& speeds, uint64_t most_messages) {
  PlanInput scaled = input;
  scaled.world = workers;
  RW_ASSIGN_OR_RETURN(const PlannedStep step, PlanStep(planner, scaled));
  PlanScene scene;
  scene.network = scaled.network;
  scene.workers = workers;
  scene.reducers = scaled.servers;
  scene.entry_bytes = scaled.entry_bytes;
  scene.speeds = speeds;
  scene.selection = scaled.selection;
  scene.selects_on_compute = SelectsOnCompute(planner);
  scene.hosts = scaled.hosts;
  scene.node_hosts = scaled.node_hosts;
  scene.most_messages = most_messages;
  RW_ASSIGN_OR_RETURN(const Stage stage,
                      StageOf(scene, step.plan, scaled.tensors, scaled.ready_seconds));
  RW_ASSIGN_OR_RETURN(const Outcome outcome, Simulate(stage.scene));
  double slowest = 1;
  for (size_t n = 0; n < speeds.size() && n < static_cast<size_t>(workers); ++n) {
    slowest = std::max(slowest, speeds[n].compute);
  }
  const double backward_end = step.backward_seconds * slowest;
  double end = backward_end;
  for (const double node : outcome.node_end_seconds) end = std::max(end, node);
  const double next_forward =
      NextForwardEnd(MakeProblem(scaled), step.plan, outcome, backward_end, slowest);
  ScalingPoint point;
  point.workers = workers;
  point.groups = step.plan.groups.size();
  point.predicted_seconds = step.iteration_seconds;
  point.simulated_seconds =
      next_forward >= 0 ? next_forward : input.forward_seconds * slowest + end;
  const double compute = input.forward_seconds + step.backward_seconds;
  point.exposed_seconds = point.simulated_seconds - compute * slowest;
  point.efficiency = point.simulated_seconds > 0 ? compute / point.simulated_seconds : 1;
  point.messages = outcome.messages;
  point.joined_chunks = stage.joined_chunks;
  return point;
}

std::string ScalingTable(const std::vector<ScalingPoint>& points) {
  std::string text = absl::StrFormat("%8s %7s %12s %12s %12s %11s %12s\n", "workers", "groups",
                                     "predicted", "simulated", "exposed", "efficiency", "messages");
  for (const ScalingPoint& point : points) {
    absl::StrAppendFormat(
        &text, "%8d %7d %12s %12s %12s %10.1f%% %12d\n", point.workers, point.groups,
        FormatSeconds(point.predicted_seconds), FormatSeconds(point.simulated_seconds),
        FormatSeconds(point.exposed_seconds), 100 * point.efficiency, point.messages);
  }
  for (const ScalingPoint& point : points) {
    if (point.joined_chunks == 1) continue;
    absl::StrAppendFormat(&text, "%d workers: played in chunks as long as %d of a job's\n",
                          point.workers, point.joined_chunks);
  }
  return text;
}

std::string ScalingCsv(const std::vector<ScalingPoint>& points) {
  std::string text =
      "workers,groups,predicted_seconds,simulated_seconds,exposed_seconds,efficiency,messages\n";
  for (const ScalingPoint& point : points) {
    absl::StrAppendFormat(&text, "%d,%d,%.17g,%.17g,%.17g,%.17g,%d\n", point.workers, point.groups,
                          point.predicted_seconds, point.simulated_seconds, point.exposed_seconds,
                          point.efficiency, point.messages);
  }
  return text;
}

std::string ScalingSvg(const std::vector<ScalingPoint>& points, const std::string& title) {
  constexpr double kLeft = 60, kTop = 40, kWidth = 640, kHeight = 320;
  int least = 1 << 30;
  int most = 1;
  for (const ScalingPoint& point : points) {
    least = std::min(least, point.workers);
    most = std::max(most, point.workers);
  }
  const double span = std::max(1e-9, std::log2(most) - std::log2(std::min(least, most)));
  const auto x = [&](int workers) {
    return kLeft + kWidth * (most == least ? 0.5 : (std::log2(workers) - std::log2(least)) / span);
  };
  const auto y = [&](double efficiency) {
    return kTop + kHeight * (1 - std::min(1.0, efficiency));
  };
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"%.0f\" y=\"20\" font-size=\"15\" font-weight=\"bold\">%s</text>\n"
      "<text x=\"%.0f\" y=\"34\" font-size=\"11\" fill=\"#555\">computing time / time of the "
      "simulated step (linear scale)</text>\n",
      kLeft + kWidth + 40, kTop + kHeight + 50, kLeft, EscapeXml(title), kLeft);
  for (int percent = 0; percent <= 100; percent += 20) {
    const double at = y(percent / 100.0);
    absl::StrAppendFormat(&svg,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                          "stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%.1f\" "
                          "text-anchor=\"end\">%d %%</text>\n",
                          kLeft, at, kLeft + kWidth, at, kLeft - 6, at + 4, percent);
  }
  std::string line;
  for (const ScalingPoint& point : points) {
    absl::StrAppendFormat(&line, "%.1f,%.1f ", x(point.workers), y(point.efficiency));
    absl::StrAppendFormat(&svg,
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n"
                          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#d9822b\"><title>%s, "
                          "%.1f %%</title></circle>\n",
                          x(point.workers), kTop + kHeight + 18, point.workers, x(point.workers),
                          y(point.efficiency), FormatSeconds(point.simulated_seconds),
                          100 * point.efficiency);
  }
  absl::StrAppendFormat(
      &svg,
      "<polyline points=\"%s\" fill=\"none\" stroke=\"#d9822b\" "
      "stroke-width=\"2\"/>\n<text x=\"%.1f\" y=\"%.1f\" "
      "text-anchor=\"middle\">number of workers (logarithmic scale)</text>\n</svg>\n",
      line, kLeft + kWidth / 2, kTop + kHeight + 40);
  return svg;
}

}  // namespace ringwood
