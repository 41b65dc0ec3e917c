#include "plan/predict/step_graph.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "plan/model/fit.h"
#include "plan/predict/show.h"

namespace ringwood {
namespace {

PlanInput SmallStep() {
  PlanInput input;
  input.world = 4;
  input.forward_seconds = 0.02;
  input.network = {1e-4, 1e-8, 0};
  input.tensors = {{"fc", 1000000, "auto", 0.01},
                   {"conv2", 100000, "auto", 0.01},
                   {"conv1", 5000, "auto", 0.01}};
  input.ready_seconds = {0.005, 0.015, 0.030};
  return input;
}

TEST(StepGraph, TheLongestPathIsThePredictedStep) {
  const PlanInput input = SmallStep();
  for (const std::string& planner : PlannerNames()) {
    const Plan plan = *MakePlan(planner, input);
    const StepGraph graph = *MakeStepGraph(input, plan, {});
    EXPECT_NEAR(graph.iteration_seconds, plan.predicted_seconds, 1e-9) << planner;
    EXPECT_FALSE(graph.critical_path.empty());
  }
}

TEST(StepGraph, TheCriticalPathNamesWhatExposes) {
  const PlanInput input = SmallStep();
  const StepGraph graph = *MakeStepGraph(input, *MakePlan("wfbp", input), {0, 0, 0.001});
  const std::vector<std::string> expected = {"forward conv1", "forward conv2", "forward fc",
                                             "backward fc",   "ring group 0",  "ring group 1",
                                             "ring group 2",  "update"};
  EXPECT_EQ(graph.critical_path, expected);
}

TEST(StepGraph, ASlowReaderIsTheStep) {
  const PlanInput input = SmallStep();
  const StepGraph graph = *MakeStepGraph(input, *MakePlan("exact", input), {0.5, 0.1, 0});
  EXPECT_DOUBLE_EQ(graph.iteration_seconds, 0.6);
  EXPECT_EQ(graph.critical_path.back(), "copy them to the device");
}

TEST(Show, JsonAndChromeTraceParseAndKeepEveryBit) {
  PlanInput input = SmallStep();
  input.tensors[1].name = "odd \"name\" \xff";
  for (const std::string& planner : PlannerNames()) {
    const PlannedStep step = *PlanStep(planner, input);
    const auto json = nlohmann::json::parse(ToJson(step, input));
    EXPECT_EQ(json["planner"], planner);
    EXPECT_EQ(json["iteration_seconds"].get<double>(), step.iteration_seconds);
    EXPECT_EQ(json["end_seconds"].get<double>(), step.end_seconds);
    ASSERT_EQ(json["groups"].size(), step.plan.groups.size());
    for (const auto& group : json["groups"]) {
      for (const char* key : {"first", "last", "bytes", "route", "density", "start_seconds",
                              "end_seconds", "reason"}) {
        EXPECT_TRUE(group.contains(key)) << key;
      }
    }
    const StepGraph graph = *MakeStepGraph(input, step.plan, {});
    const auto events = nlohmann::json::parse(ToChromeTrace(graph, "x"))["traceEvents"];
    EXPECT_GE(events.size(), graph.nodes.size());
    EXPECT_EQ(ToSvg({step}, input, "a < b").find("a < b"), std::string::npos);
  }
}

TEST(Show, SpansOfATracesThreadDoNotOverlap) {
  StepGraph graph;
  const auto add = [&graph](const char* name, double start, double end) {
    graph.nodes.push_back({name, "select", end - start, {}, start, end, false});
  };
  add("a", 0, 0.02);
  add("b", 0.01, 0.03);
  add("c", 0.02, 0.04);  // beside b, where a was
  std::map<std::string, int> thread_of;
  std::vector<std::string> threads;
  const auto trace = nlohmann::json::parse(ToChromeTrace(graph, "x"));
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") threads.push_back(event["args"]["name"]);
    if (event["ph"] == "X") thread_of[event["name"]] = event["tid"];
  }
  EXPECT_EQ(threads, (std::vector<std::string>{"select", "select 2"}));
  EXPECT_EQ(thread_of, (std::map<std::string, int>{{"a", 0}, {"b", 1}, {"c", 0}}));
}

TEST(Cost, ClosedFormsAreTheTable) {
  const Network n{3, 5, 7};
  const double m = 11;
  const auto expect = [&](const Cost& cost, double a, double b) {
    EXPECT_NEAR(cost.Startup(), a, 1e-12);
    EXPECT_NEAR(cost.Seconds(m), a + b * m, 1e-9);
  };
  expect(RingCost(n, 8), 2 * 7 * 3, 2.0 * 7 / 8 * 5 + 7.0 / 8 * 7);
  expect(RingReduceScatterCost(n, 8), 7 * 3, 7.0 / 8 * (5 + 7));
  expect(RingAllGatherCost(n, 8), 7 * 3, 7.0 / 8 * 5);
  EXPECT_EQ(RingCost(n, 1).Seconds(100), 0);
}

TEST(Cost, TablesInterpolateAndRefuseWhatIsNotMonotone) {
  const Cost cost = *Cost::Table({{0, 1}, {10, 2}, {20, 6}});
  EXPECT_DOUBLE_EQ(cost.Seconds(5), 1.5);
  EXPECT_DOUBLE_EQ(cost.Seconds(15), 4);
  EXPECT_DOUBLE_EQ(cost.Seconds(30), 10);  // the last slope goes on
  EXPECT_DOUBLE_EQ(cost.Scaled(0.5, 0.1).Seconds(20), 2 + 2);
  EXPECT_FALSE(Cost::Table({{0, 1}, {10, 0.5}}).ok());
  EXPECT_FALSE(Cost::Table({{0, 1}, {0, 2}}).ok());
  EXPECT_FALSE(Cost::Table({{0, 1}}).ok());
  EXPECT_FALSE(Cost::Table({{0, 1}, {1, std::nan("")}}).ok());
}

TEST(Cost, APlateauAtATablesEndMakesNoLongerMessageFree) {
  const Cost rising = *Cost::Table({{0, 1}, {10, 3}, {20, 3}});
  EXPECT_DOUBLE_EQ(rising.Seconds(20), 3);
  EXPECT_DOUBLE_EQ(rising.Seconds(40), 5);  // the whole table rises by 0.1
  const Cost level = *Cost::Table({{10, 2}, {20, 2}});
  EXPECT_DOUBLE_EQ(level.Seconds(30), 3);
  const Cost convex = *Cost::Table({{0, 1}, {10, 2}, {20, 6}});
  EXPECT_DOUBLE_EQ(convex.Seconds(30), 10);
}

TEST(Fit, TheRobustFitSurvivesAThirdOfWildSamples) {
  Random random(9);
  std::vector<std::pair<double, double>> samples;
  for (int i = 0; i < 300; ++i) {
    const double bytes = static_cast<double>(random.Below(1 << 20));
    double seconds = 5e-4 + 8e-9 * bytes + 1e-6 * random.Unit();
    if (i % 10 < 3) seconds += 0.1 * random.Unit();
    samples.emplace_back(bytes, seconds);
  }
  const AffineFit fit = *FitRobust(samples);
  EXPECT_NEAR(fit.startup_seconds, 5e-4, 2e-4);
  EXPECT_NEAR(fit.seconds_per_byte, 8e-9, 4e-10);
  EXPECT_FALSE(FitRobust({{1, 2}, {1, 3}}).ok());
}

TEST(Cost, AHierarchyIsTheRingWhereEveryRankHasAHostOfItsOwn) {
  const Network network{1e-4, 8e-9, 5e-10};
  for (int world = 2; world <= 17; ++world) {
    for (const double bytes : {0.0, 1e4, 1e8}) {
      EXPECT_NEAR(HierarchyCost(network, OneEach(world)).Seconds(bytes),
                  RingCost(network, world).Seconds(bytes), 1e-12);
    }
  }
}

TEST(Cost, AHierarchyPaysForItsSlowestHop) {
  Network network{1e-4, 8e-9, 0};
  // Two hosts of four: the NIC carries the tensor once, a ring of all eight 1.75 times.
  EXPECT_NEAR(HierarchyCost(network, EvenHosts(8, 4)).Seconds(1e8), 4e-4 + 0.8, 1e-9);
  network.inside_beta = 8e-9;  // a memory no faster than the NIC
  EXPECT_NEAR(HierarchyCost(network, EvenHosts(8, 4)).Seconds(1e8), 4e-4 + 6 * 0.8, 1e-9);
  EXPECT_NEAR(HierarchyCost(network, EvenHosts(4, 4)).Seconds(1e8), 2e-4 + 6 * 0.8, 1e-9);
}

TEST(Cost, TheNetworkBehindAnAllReduceIsTheOneThatItsCostWasMadeOf) {
  const Network network{1e-4, 8e-9, 5e-10};
  for (const Hosts& hosts :
       {OneEach(2), OneEach(8), EvenHosts(8, 4), EvenHosts(7, 3), Hosts{{0}, {1, 2, 3}, {4}}}) {
    const Cost cost = HierarchyCost(network, hosts);
    const double slope = cost.Seconds(1) - cost.Startup();
    const Network found = NetworkBehind(cost.Startup(), slope, hosts, network.gamma);
    EXPECT_NEAR(found.alpha, network.alpha, 1e-12);
    EXPECT_NEAR(found.beta, network.beta, 1e-15);
  }
  const Network memory = NetworkBehind(1e-4, 6 * 3e-10, EvenHosts(4, 4), 0);
  EXPECT_NEAR(memory.inside_beta, 3e-10, 1e-18);
  EXPECT_EQ(memory.beta, memory.inside_beta);
}

}  // namespace
}  // namespace ringwood
