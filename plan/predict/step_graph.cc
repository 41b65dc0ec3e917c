#include "plan/predict/step_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "plan/strategy/problem.h"

namespace ringwood {
namespace {

class Builder {
 public:
  Builder(const PlanInput& input, const Plan& plan, const StepCosts& costs)
      : input_(input), plan_(plan), costs_(costs), problem_(MakeProblem(input)) {
    gathers_ = std::any_of(plan.groups.begin(), plan.groups.end(),
                           [](const Group& group) { return group.route == "all-gather"; });
    selects_on_compute_ = plan.planner == "omgs" || plan.planner == "omgs-exact";
  }

  StepGraph Build() {
    if (costs_.read_seconds > 0) Input("read the next samples", costs_.read_seconds);
    if (costs_.copy_seconds > 0) Input("copy them to the device", costs_.copy_seconds);
    if (!gathers_) Forward("forward", {});
    Backward();
    Communication();
    if (gathers_) Forward("next forward", group_nodes_);
    if (costs_.update_seconds > 0) Update();
    Evaluate(&graph_);
    return std::move(graph_);
  }

 private:
  size_t Add(std::string name, std::string stream, double seconds, std::vector<size_t> after) {
    graph_.nodes.push_back(
        {std::move(name), std::move(stream), seconds, std::move(after), 0, 0, false});
    return graph_.nodes.size() - 1;
  }

  // Adds to a stream that does one thing after the other.
  size_t Chain(std::vector<size_t>* stream, std::string name, const char* stream_name,
               double seconds, std::vector<size_t> after) {
    if (!stream->empty()) after.push_back(stream->back());
    stream->push_back(Add(std::move(name), stream_name, seconds, std::move(after)));
    return stream->back();
  }

  void Input(std::string name, double seconds) {
    Chain(&input_stream_, std::move(name), "input", seconds, {});
  }

  // Layer by layer, from the last tensor to the first. `gathers`: nodes of the plan's groups.
  void Forward(const std::string& what, const std::vector<size_t>& gathers) {
    const std::vector<double> seconds = ForwardSeconds(problem_);
    std::vector<std::vector<size_t>> needs(input_.tensors.size());
    for (size_t g = 0; g < gathers.size(); ++g) {
      if (plan_.groups[g].route != "all-gather") continue;
      for (const uint32_t t : plan_.groups[g].tensors) needs[t].push_back(gathers[g]);
    }
    for (size_t t = input_.tensors.size(); t-- > 0;) {
      if (seconds[t] <= 0 && needs[t].empty()) continue;
      Chain(&compute_, absl::StrCat(what, " ", input_.tensors[t].name), "compute", seconds[t],
            needs[t]);
    }
  }

  void Backward() {
    const std::vector<double> seconds = BackwardSeconds(problem_);
    std::vector<int> group_of(seconds.size(), -1);
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      for (const uint32_t t : plan_.groups[g].tensors) {
        if (plan_.groups[g].route == "tree") group_of[t] = static_cast<int>(g);
      }
    }
    made_.resize(seconds.size());
    for (uint32_t t = 0; t < seconds.size(); ++t) {
      const std::string& name = input_.tensors[t].name;
      made_[t] = Chain(&compute_, absl::StrCat("backward ", name), "compute", seconds[t], {});
      if (group_of[t] < 0) continue;
      const Group& group = plan_.groups[group_of[t]];
      if (!selects_on_compute_) {
        made_[t] =
            Add(absl::StrCat("select ", name), "select", SelectionSeconds(problem_, t), {made_[t]});
      } else if (t == group.tensors.back()) {
        double elements = 0;
        for (const uint32_t s : group.tensors) {
          elements += static_cast<double>(input_.tensors[s].elements);
        }
        made_[t] = Chain(&compute_, absl::StrCat("select group ", group_of[t]), "compute",
                         input_.selection.Seconds(elements), {});
      }
    }
  }

  // A message waits for its gradients and for the message that made room for it: of those over by
  // its start, the last.
  void Communication() {
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      const Group& group = plan_.groups[g];
      std::vector<size_t> after;
      if (group.route != "all-gather") {
        for (const uint32_t t : group.tensors) after.push_back(made_[t]);
      }
      int before = -1;
      for (size_t h = 0; h < g; ++h) {
        if (plan_.groups[h].end_seconds > group.start_seconds) continue;
        if (before < 0 || plan_.groups[h].end_seconds >= plan_.groups[before].end_seconds) {
          before = static_cast<int>(h);
        }
      }
      if (before >= 0) after.push_back(group_nodes_[before]);
      group_nodes_.push_back(Add(absl::StrCat(group.route, " group ", g), group.route,
                                 group.end_seconds - group.start_seconds, std::move(after)));
    }
  }

  void Update() {
    std::vector<size_t> after = group_nodes_;
    if (!compute_.empty()) after.push_back(compute_.back());
    Add("update", "compute", costs_.update_seconds, std::move(after));
  }

  const PlanInput& input_;
  const Plan& plan_;
  const StepCosts& costs_;
  Problem problem_;
  bool gathers_ = false;
  bool selects_on_compute_ = false;
  StepGraph graph_;
  std::vector<size_t> input_stream_;
  std::vector<size_t> compute_;
  std::vector<size_t> made_;  // per tensor: its gradient (or entries) are there
  std::vector<size_t> group_nodes_;
};

}  // namespace

void Evaluate(StepGraph* graph) {
  std::vector<int> latest(graph->nodes.size(), -1);
  int last = -1;
  for (size_t n = 0; n < graph->nodes.size(); ++n) {
    StepNode& node = graph->nodes[n];
    node.start_seconds = 0;
    for (const size_t before : node.after) {
      if (latest[n] < 0 || graph->nodes[before].end_seconds > node.start_seconds) {
        node.start_seconds = graph->nodes[before].end_seconds;
        latest[n] = static_cast<int>(before);
      }
    }
    node.end_seconds = node.start_seconds + node.seconds;
    if (last < 0 || node.end_seconds >= graph->nodes[last].end_seconds) {
      last = static_cast<int>(n);
    }
  }
  graph->critical_path.clear();
  graph->iteration_seconds = last < 0 ? 0 : graph->nodes[last].end_seconds;
  for (int n = last; n >= 0; n = latest[n]) {
    graph->nodes[n].critical = true;
    graph->critical_path.push_back(graph->nodes[n].name);
  }
  std::reverse(graph->critical_path.begin(), graph->critical_path.end());
}

StatusOr<StepGraph> MakeStepGraph(const PlanInput& input, const Plan& plan,
                                  const StepCosts& costs) {
  RW_RETURN_IF_ERROR(Validate(input));
  for (const Group& group : plan.groups) {
    for (const uint32_t t : group.tensors) {
      if (t >= input.tensors.size()) return Invalid("step graph: the plan is of another table");
    }
  }
  return Builder(input, plan, costs).Build();
}

}  // namespace ringwood
