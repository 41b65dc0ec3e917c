#include "plan/strategy/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "dense/sums_by_host.h"
#include "plan/sparse_groups.h"
#include "plan/strategy/lane.h"
#include "plan/strategy/problem.h"
#include "plan/wire.h"
#include "sparse/entries.h"

namespace ringwood {
namespace {

PlanInput SmallNetwork() {
  PlanInput input;
  input.world = 4;
  for (int i = 0; i < 6; ++i) {
    input.tensors.push_back({"bias" + std::to_string(i), 64, "auto", 0.01});
    input.tensors.push_back({"weight" + std::to_string(i), 400000, "auto", 0.01});
  }
  return input;
}

TEST(Planner, EntriesAreRoundedAndAtLeastOne) {
  EXPECT_EQ(EntriesOf(0.01, 149), 1u);
  EXPECT_EQ(EntriesOf(0.01, 151), 2u);
  EXPECT_EQ(EntriesOf(1e-9, 10), 1u);
  EXPECT_EQ(EntriesOf(1, 10), 10u);
  EXPECT_EQ(EntriesOf(2, 10), 10u);
}

TEST(Planner, EntriesOfAllElementsThatAGroupMayHaveAreCounted) {
  EXPECT_EQ(EntriesOf(1e-9, kMaxGroupElements), 4u);
  EXPECT_EQ(EntriesOf(0.5, kMaxGroupElements), 1ull << 31);
  EXPECT_EQ(EntriesOf(0.999999999999, kMaxGroupElements), kMaxGroupElements);
  EXPECT_EQ(EntriesOf(0.5, 1ull << 40), 1ull << 39);
  Plan plan;
  Group tree;
  tree.route = "tree";
  tree.tensors = {0, 1};
  tree.density = 0.75;
  tree.keep = 8;
  tree.k = EntriesOf(0.75, 1ull << 31) + EntriesOf(0.75, (1ull << 31) - 1);
  plan.groups = {tree};
  const auto groups = SparseGroupsOf(plan, {8, 2, 8}, {1ull << 31, (1ull << 31) - 1});
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ((*groups)[0].elements, kMaxGroupElements);
  EXPECT_EQ((*groups)[0].keep, kMaxGroupElements) << "no more than there are";
}

TEST(Planner, EveryPlannerPutsEveryTensorInOneGroup) {
  const PlanInput input = SmallNetwork();
  for (const std::string& name : PlannerNames()) {
    const auto plan = MakePlan(name, input);
    ASSERT_TRUE(plan.ok()) << Message(plan.status());
    EXPECT_EQ(plan->planner, name);
    for (const Group& group : plan->groups) EXPECT_FALSE(group.reason.empty());
    if (name == "dear") continue;  // two groups a tensor, for the model only
    const Status valid = Validate(*plan, input.tensors);
    EXPECT_TRUE(valid.ok()) << Message(valid);
    EXPECT_EQ(Hash(*plan), Hash(*MakePlan(name, input)));
  }
}

TEST(Planner, HybridSendsLargeTensorsUpTheTreeAndMergesSmallOnes) {
  const auto plan = MakePlan("hybrid", SmallNetwork());
  ASSERT_TRUE(plan.ok());
  size_t tree = 0;
  for (const Group& group : plan->groups) {
    if (group.route == "tree") {
      ++tree;
      EXPECT_EQ(group.k, 4000u);
    } else {
      EXPECT_EQ(group.k, 0u);
    }
  }
  EXPECT_EQ(tree, 6u);
}

TEST(Planner, HybridKeepsTheUsersRoutes) {
  PlanInput input = SmallNetwork();
  for (TensorSpec& tensor : input.tensors) tensor.route = "dense";
  input.tensors[0].route = "sparse";
  const auto plan = MakePlan("hybrid", input);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(Validate(*plan, input.tensors).ok());
}

TEST(Planner, EveryPlannerOfJobsKeepsTheUsersRoutes) {
  PlanInput input = SmallNetwork();
  for (size_t t = 0; t < input.tensors.size(); ++t) {
    input.tensors[t].route = t % 3 == 0 ? "dense" : t % 3 == 1 ? "sparse" : "auto";
  }
  for (const bool measured : {false, true}) {
    if (measured) input.ready_seconds = FixedProfile(input.tensors);
    for (const std::string& name : PlannerNames()) {
      if (!CheckRunnable(name).ok()) continue;
      const auto plan = MakePlan(name, input);
      ASSERT_TRUE(plan.ok()) << name << ": " << Message(plan.status());
      const Status valid = Validate(*plan, input.tensors);
      EXPECT_TRUE(valid.ok()) << name << ": " << Message(valid);
    }
  }
}

TEST(Planner, WhatNoJobCanRunIsRefusedWithWhatItCan) {
  EXPECT_TRUE(CheckRunnable("hybrid").ok());
  for (const char* name : {"asc", "dear", "nonsense"}) {
    const std::string message = Message(CheckRunnable(name));
    EXPECT_NE(message.find(name), std::string::npos);
    EXPECT_NE(message.find("hybrid"), std::string::npos);
  }
}

// 2^32 elements and more have no 32-bit indices.
TEST(Planner, NoSparseGroupIsLongerThanItsIndicesReach) {
  PlanInput input;
  input.world = 4;
  for (int i = 0; i < 5; ++i) {
    input.tensors.push_back({"t" + std::to_string(i), uint64_t{3} << 29, "auto", 0.001});
  }
  input.tensors.push_back({"huge", uint64_t{1} << 32, "auto", 0.001});
  for (const bool measured : {false, true}) {
    input.ready_seconds.assign(measured ? input.tensors.size() : 0, 1.0);
    for (const std::string& name : PlannerNames()) {
      if (!CheckRunnable(name).ok()) continue;
      const auto plan = MakePlan(name, input);
      ASSERT_TRUE(plan.ok()) << name << ": " << Message(plan.status());
      const Status valid = Validate(*plan, input.tensors);
      EXPECT_TRUE(valid.ok()) << name << ": " << Message(valid);
    }
  }
  input.tensors.back().route = "sparse";
  EXPECT_NE(Message(MakePlan("hybrid", input).status()).find("huge"), std::string::npos);
  input.tensors.pop_back();
  Plan plan;
  plan.groups.resize(1);
  plan.groups[0].route = "tree";
  plan.groups[0].density = 0.001;
  for (uint32_t t = 0; t < 5; ++t) {
    plan.groups[0].tensors.push_back(t);
    plan.groups[0].k += EntriesOf(0.001, input.tensors[t].elements);
  }
  EXPECT_NE(Message(Validate(plan, input.tensors)).find("4294967295"), std::string::npos);
}

TEST(Planner, SmallSparseTensorsShareMessages) {
  PlanInput input;
  input.world = 4;
  for (int i = 0; i < 20000; ++i) {
    input.tensors.push_back({"t" + std::to_string(i), 1000, "sparse", 0.01});
  }
  input.tensors[100].density = 0.02;  // a group has one density
  for (const bool measured : {false, true}) {
    if (measured) input.ready_seconds = FixedProfile(input.tensors);
    for (const char* name : {"hybrid", "wfbp"}) {
      const Plan plan = *MakePlan(name, input);
      EXPECT_LT(plan.groups.size(), 3000u) << name;
      uint64_t entries = 0;
      for (const Group& group : plan.groups) entries += group.k;
      EXPECT_EQ(entries, 10 * 20000 + 10u);
    }
  }
}

TEST(Planner, OmgsExactTakesTheRuleWhereItsSearchIsTooLong) {
  PlanInput input;
  input.world = 4;
  for (int i = 0; i < 10000; ++i) {
    input.tensors.push_back({absl::StrCat("t", i), 64 + 100u * (i % 7), "sparse", 0.01});
  }
  const Plan exact = *MakePlan("omgs-exact", input);
  const Plan rule = *MakePlan("omgs", input);
  EXPECT_EQ(exact.planner, "omgs-exact");
  ASSERT_EQ(exact.groups.size(), rule.groups.size());
  for (size_t g = 0; g < rule.groups.size(); ++g) {
    EXPECT_EQ(exact.groups[g].tensors, rule.groups[g].tensors);
    EXPECT_EQ(exact.groups[g].reason,
              rule.groups[g].reason + ", by omgs's rule: too many tensors for an exact search");
  }
}

// At the bounds of all numbers.
TEST(Planner, EveryPlannerPlansForTheSlowestNetwork) {
  PlanInput input = SmallNetwork();
  input.ready_seconds = FixedProfile(input.tensors);
  input.servers = 4;
  input.network = {.alpha = kMostSeconds,
                   .beta = kMostSecondsPerByte,
                   .gamma = kMostSecondsPerByte,
                   .inside_beta = kMostSecondsPerByte};
  for (const double delay : {0.0, kMostSeconds}) {
    input.network.delay = delay;
    for (const std::string& name : PlannerNames()) {
      const auto plan = MakePlan(name, input);
      ASSERT_TRUE(plan.ok()) << name << ": " << Message(plan.status());
      EXPECT_TRUE(std::isfinite(plan->predicted_seconds)) << name;
    }
  }
}

TEST(Planner, WhatIsOutOfBoundsIsNamed) {
  const auto error = [](auto change) {
    PlanInput input = SmallNetwork();
    change(&input);
    return Message(MakePlan("hybrid", input).status());
  };
  EXPECT_EQ(error([](PlanInput* input) { input->network.alpha = 1e308; }),
            "planner input: alpha is 1e+308; it may be 0 to 1e+06");
  EXPECT_EQ(error([](PlanInput* input) { input->network.inside_beta = 9; }),
            "planner input: the beta inside a host is 9; it may be 0 to 8");
  EXPECT_EQ(error([](PlanInput* input) { input->ready_seconds.assign(12, 1e300); }),
            "ready times: entry 0 is 1e+300; they must be 0 to 1e+06 s and never fall");
  EXPECT_EQ(error([](PlanInput* input) { input->max_density = 0.005; }),
            "tensor bias0: density 0.01 is above the upper bound, 0.005");
  EXPECT_EQ(error([](PlanInput* input) {
              input->max_density = 0.005;
              for (TensorSpec& tensor : input->tensors) tensor.route = "dense";
            }),
            "");
}

TEST(Planner, HybridMergesAndMixesRoutesOfLongTables) {
  PlanInput input;
  input.world = 8;
  for (int i = 0; i < 1500; ++i) {
    const uint64_t elements = i % 3 == 0 ? 300000 + 500 * static_cast<uint64_t>(i) : 500;
    input.tensors.push_back({"t" + std::to_string(i), elements, "auto", 0.001});
  }
  const Plan first = *MakePlan("hybrid", input);
  input.ready_seconds = FixedProfile(input.tensors);
  const Plan plan = *MakePlan("hybrid", input);
  EXPECT_TRUE(Validate(plan, input.tensors).ok());
  EXPECT_LT(plan.groups.size(), input.tensors.size());
  EXPECT_LE(plan.predicted_seconds, first.predicted_seconds * 1.02);
  bool raised = false;  // which the first plan never does
  for (const Group& group : plan.groups) raised |= group.route == "tree" && group.density > 0.001;
  EXPECT_TRUE(raised);
}

TEST(Planner, AResultHasTheEntriesOfAllWorkersUpToOnePerCentOfTheTensor) {
  for (const int world : {1, 2, 4, 8, 64}) {
    for (const double density : {0.0001, 0.001, 0.003, 0.01, 0.1}) {
      PlanInput input;
      input.world = world;
      input.tensors = {{"w", 10'000'000, "sparse", density}};
      const Plan plan = *MakePlan("hybrid", input);
      const Group& group = plan.groups.at(0);
      const SparseGroup sparse = SparseGroupsOf(plan, {world, 1}, {10'000'000})->at(0);
      const uint64_t all = group.k * static_cast<uint64_t>(world);
      EXPECT_NEAR(static_cast<double>(sparse.result_entries()),
                  static_cast<double>(std::max(group.k, std::min<uint64_t>(all, 100'000))), 1)
          << world << " workers, density " << density;
      input.keep = 1;
      EXPECT_EQ(MakePlan("hybrid", input)->groups.at(0).keep, 1);
      input.keep = 0;
      input.merge = "union";
      EXPECT_EQ(MakePlan("hybrid", input)->groups.at(0).keep, 1);
    }
  }
}

TEST(Planner, LongerResultsAreSlower) {
  PlanInput input = SmallNetwork();
  for (TensorSpec& tensor : input.tensors) tensor.route = "sparse";
  input.keep = 1;
  const double short_results = MakePlan("hybrid", input)->predicted_seconds;
  input.keep = 4;
  EXPECT_GT(MakePlan("hybrid", input)->predicted_seconds, short_results);
}

TEST(Planner, OneWorkerAndAnEmptyTableWork) {
  PlanInput input = SmallNetwork();
  input.world = 1;
  input.servers = 0;
  EXPECT_TRUE(MakePlan("hybrid", input).ok());
  input.tensors.clear();
  EXPECT_TRUE(MakePlan("hybrid", input)->groups.empty());
}

TEST(Planner, WorkersThatShareANicMakeDenseGroupsCheaper) {
  PlanInput input = SmallNetwork();
  input.world = 8;
  const double ring = MakePlan("exact", input)->predicted_seconds;
  input.hosts = EvenHosts(8, 4);
  const double hierarchy = MakePlan("exact", input)->predicted_seconds;
  EXPECT_GT(ring / hierarchy, 1.5);
  input.hosts = OneEach(8);
  EXPECT_EQ(MakePlan("exact", input)->predicted_seconds, ring);
}

TEST(Planner, BadInputIsNamed) {
  PlanInput input = SmallNetwork();
  EXPECT_NE(Message(MakePlan("nonsense", input).status()).find("exact"), std::string::npos);
  input.tensors[3].elements = 0;
  EXPECT_NE(Message(MakePlan("exact", input).status()).find("weight1"), std::string::npos);
  input = SmallNetwork();
  input.hosts = {{0, 1}, {2}};  // of four workers
  EXPECT_NE(Message(MakePlan("exact", input).status()).find("host"), std::string::npos);
  input = SmallNetwork();
  input.node_hosts = {0, 0, 1};  // of four workers and a server
  EXPECT_NE(Message(MakePlan("exact", input).status()).find("the hosts of 3 nodes"),
            std::string::npos);
  input = SmallNetwork();
  input.ready_seconds.assign(input.tensors.size(), 1);
  input.ready_seconds[4] = 0.5;
  EXPECT_EQ(MakePlan("exact", input).status().code(), StatusCode::kInvalidArgument);
  input.ready_seconds[4] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(MakePlan("exact", input).status().code(), StatusCode::kInvalidArgument);
}

// The formats of the groups that "wfbp" makes of one long and one short tensor.
std::vector<std::string> FormatsOver(double seconds_per_byte, int world = 4) {
  PlanInput input;
  input.world = world;
  input.tensors = {{"long", 25'000'000, "dense", 0.01}, {"short", 16, "dense", 0.01}};
  input.network.beta = seconds_per_byte;
  input.ring_codecs = RingCodecs("auto", world);
  std::vector<std::string> formats;
  const auto plan = MakePlan("wfbp", input);
  if (!plan.ok()) return {Message(plan.status())};
  for (const Group& group : plan->groups) formats.push_back(group.codec);
  return formats;
}

TEST(Planner, ChoosesTheWireFormatOfEachGroupByTheNetwork) {
  EXPECT_EQ(FormatsOver(8.37e-9)[0], "int4");   // 1 Gbit/s
  EXPECT_EQ(FormatsOver(8.37e-12)[0], "fp32");  // 1 Tbit/s: encoding takes longer than the wire
  for (const int world : {2, 4, 64}) EXPECT_EQ(FormatsOver(8.37e-9, world).size(), 2u);
}

TEST(Planner, AutoOffersOnlyFormatsThatCanAddUpAllWorkers) {
  const auto names = [](int workers) {
    std::vector<std::string> all;
    for (const CodecCost& codec : RingCodecs("auto", workers)) all.push_back(codec.name);
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(258), (Names{"fp32", "bf16", "int8", "int4"}));
  EXPECT_EQ(names(259), (Names{"fp32", "bf16", "int4"}));
  EXPECT_EQ(names(4682), (Names{"fp32", "bf16"}));
  EXPECT_EQ(RingCodecs("bf16", 4).size(), 1u);
}

// NCCL rounds nothing to bf16 that anybody could feed back.
TEST(Planner, OnDevicesThereAreFp32AndCodes) {
  const auto names = [](const char* wire, int workers) {
    std::vector<std::string> all;
    for (const CodecCost& codec : DeviceCodecs(wire, OneEach(workers))) all.push_back(codec.name);
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("auto", 258), (Names{"fp32", "int8", "int4"}));
  EXPECT_EQ(names("auto", 259), (Names{"fp32", "int4"}));
  EXPECT_EQ(names("bf16", 4), Names{"fp32"});
  EXPECT_EQ(names("int8", 4), Names{"int8"});
  EXPECT_EQ(names("int8", 1), Names{"fp32"});
  // 4 bits to the rank that adds and 7 back, a byte for each of four blocks with it.
  const double flat = (32.0 * (4 + 7) + 2 * 4) / 2 / 1024;
  EXPECT_DOUBLE_EQ(DeviceCodec("int4", OneEach(8)).wire_ratio, flat);
  EXPECT_DOUBLE_EQ(DeviceCodec("int4", EvenHosts(8, 8)).wire_ratio, flat);
  // Of hosts with four ranks the sums, of 6 bits.
  EXPECT_DOUBLE_EQ(DeviceCodec("int4", EvenHosts(8, 4)).wire_ratio,
                   (32.0 * (6 + 7) + 2 * 4) / 2 / 1024);
}

// fp32 over NCCL is priced as what a DeviceRing does with it.
TEST(Planner, SumsOfDevicesArePricedByTheWayThatTheyTake) {
  PlanInput input = SmallNetwork();
  input.world = 16;
  input.hosts = EvenHosts(16, 8);
  input.ring_codecs = DeviceCodecs("fp32", input.hosts);
  const Cost by_host = HierarchyCost(input.network, input.hosts);
  const Cost ring = NcclRingCost(input.network, input.hosts);
  ASSERT_GT(ring.Seconds(1e6), 1.5 * by_host.Seconds(1e6));
  const auto priced = [&](double bytes) { return MakeProblem(input).ring.Seconds(bytes); };
  EXPECT_DOUBLE_EQ(priced(500'000), by_host.Seconds(500'000));
  input.on_devices = true;
  const double least = kLeastSum;
  EXPECT_NEAR(priced(0.5 * least), ring.Seconds(0.5 * least), 1e-9);
  EXPECT_NEAR(priced(16 * least), by_host.Seconds(16 * least), 0.01 * by_host.Seconds(16 * least));
  input.ring_codecs = DeviceCodecs("int8", input.hosts);
  const double ratio = input.ring_codecs[0].wire_ratio;
  EXPECT_LT(priced(0.5 * least), ratio * ring.Seconds(0.5 * least));  // codes always go by hosts
  input.hosts = EvenHosts(96, 8);  // of twelve hosts the hierarchy saves too little
  input.world = 96;
  input.ring_codecs = DeviceCodecs("fp32", input.hosts);
  const double all = NcclRingCost(input.network, input.hosts).Seconds(16 * least);
  EXPECT_NEAR(priced(16 * least), all, 1e-6 * all);
}

TEST(PlanWire, RoundTripKeepsTheValueAndTheHash) {
  const PlanInput input = SmallNetwork();
  const Plan plan = *MakePlan("hybrid", input);
  const auto back = FromProto(ToProto(plan));
  ASSERT_TRUE(back.ok()) << Message(back.status());
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(*FromProto(ToProto(input.tensors[1])), input.tensors[1]);
}

TEST(PlanWire, HostileMessagesAreErrors) {
  const v1::Plan good = ToProto(*MakePlan("hybrid", SmallNetwork()));
  v1::Plan message = good;
  message.mutable_groups(0)->set_density(0.5);
  EXPECT_EQ(FromProto(message).status().code(), StatusCode::kDataLoss);
  message = good;
  message.mutable_groups(0)->set_density(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(FromProto(message).ok());
  message = good;
  message.mutable_groups(0)->clear_tensors();
  EXPECT_FALSE(FromProto(message).ok());
  message = good;
  message.mutable_groups(0)->set_route("teleport");
  EXPECT_FALSE(FromProto(message).ok());
  v1::Tensor tensor;
  EXPECT_FALSE(FromProto(tensor).ok());
}

}  // namespace
}  // namespace ringwood
