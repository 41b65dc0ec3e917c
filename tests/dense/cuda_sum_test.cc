// Plain sums over NCCL on hosts with several ranks, without a device: the plan is run over memory
// of the host, kernels in the emulation, messages by a stand-in for NCCL.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/random.h"
#include "dense/arithmetic/half.h"
#include "dense/cuda/sum_plan.h"
#include "dense/hierarchy.h"
#include "dense/sums_by_host.h"
#include "tests/dense/stand_in_nccl.h"

namespace ringwood {
namespace {

const std::vector<Hosts>& Layouts() {
  static const std::vector<Hosts> layouts = {
      EvenHosts(4, 2),       EvenHosts(4, 4),         EvenHosts(6, 2),
      EvenHosts(8, 4),       EvenHosts(9, 3),         OneEach(3),
      {{0, 1, 2}, {3}},      {{0, 2}, {1, 3}},        {{0}, {1, 2, 3, 4}},
      {{0, 1}, {2, 3}, {4}}, {{0, 3, 5}, {1, 4}, {2}}};
  return layouts;
}

// Of all magnitudes, so that another order of additions has other bits.
std::vector<float> Wide(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(std::ldexp(random.Unit() - 0.5, static_cast<int>(seed % 7)));
  }
  return values;
}

// One element, in the documented order: its part is final on host `part` of its slice's agents.
float PlainSum(const std::vector<std::vector<float>>& inputs, const Hosts& hosts, size_t at,
               uint64_t slice, uint64_t part) {
  float total = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const size_t host = (part + i) % hosts.size();
    const std::vector<int>& ranks = hosts[host];
    const int agent = Agent(hosts, static_cast<int>(host), static_cast<int>(slice));
    const size_t first = std::find(ranks.begin(), ranks.end(), agent) - ranks.begin();
    float sum = inputs[agent][at];
    for (size_t r = 1; r < ranks.size(); ++r) sum += inputs[ranks[(first + r) % ranks.size()]][at];
    total = i == 0 ? sum : total + sum;
  }
  return total;
}

std::vector<float> PlainSums(const std::vector<std::vector<float>>& inputs, const Hosts& hosts,
                             uint64_t chunk) {
  const size_t count = inputs[0].size();
  const uint64_t parts = LargestHost(hosts) * hosts.size();
  std::vector<float> sums(count);
  for (size_t first = 0; first < count; first += chunk) {
    const size_t elements = std::min<size_t>(chunk, count - first);
    const uint64_t part = ((elements + parts - 1) / parts + 7) / 8 * 8;
    for (size_t i = 0; i < elements; ++i) {
      const uint64_t number = i / part;
      sums[first + i] =
          PlainSum(inputs, hosts, first + i, number / hosts.size(), number % hosts.size());
    }
  }
  return sums;
}

template <class Element>
struct SumRankOf {
  static constexpr Element kUnread = static_cast<Element>(12345);

  cuda::SumMemory Stage(const cuda::SumPlan& plan, bool in_place) {
    staging.assign(plan.staging + 16, kUnread);
    output = in_place ? input : std::vector<Element>(input.size(), kUnread);
    return {in_place ? output.data() : input.data(), output.data(), staging.data(),
            sizeof(Element) == 2};
  }
  std::vector<Element> input, output, staging;
};

using SumRank = SumRankOf<float>;

// All ranks, step by step. Returns how many bytes left each host.
template <class Element>
std::vector<uint64_t> SumOverNccl(std::vector<SumRankOf<Element>>& ranks, const Hosts& hosts,
                                  uint64_t chunk, bool in_place) {
  StandInNccl nccl(hosts);
  std::vector<cuda::SumPlan> plans;
  std::vector<cuda::SumMemory> memory;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto rank = static_cast<int>(r);
    plans.push_back(cuda::SumPlanFor(hosts, rank, ranks[r].input.size(), chunk));
    memory.push_back(ranks[r].Stage(plans[r], in_place));
  }
  uint64_t sent = 0;
  for (size_t step = 0; step < plans[0].steps.size(); ++step) {
    for (size_t r = 0; r < ranks.size(); ++r) {
      EXPECT_EQ(plans[r].steps.size(), plans[0].steps.size());
      EmulatedDevice device(nccl.rank(static_cast<int>(r)));
      EXPECT_TRUE(cuda::RunStep(plans[r].steps[step], memory[r], &device).ok());
    }
    sent += nccl.Deliver();
  }
  EXPECT_EQ(sent, plans[0].sent * sizeof(Element));
  for (size_t r = 0; r < ranks.size(); ++r) {
    const std::vector<Element>& staging = ranks[r].staging;
    EXPECT_EQ(std::count(staging.end() - 16, staging.end(), SumRankOf<Element>::kUnread), 16) << r;
  }
  return nccl.left_host();
}

TEST(CudaSum, AllRanksHaveTheSumInTheDocumentedOrder) {
  for (const Hosts& hosts : Layouts()) {
    SCOPED_TRACE(absl::StrJoin(HostOrder(hosts), " "));
    for (const size_t count : {size_t{1}, size_t{257}, size_t{1000}}) {
      for (const uint64_t chunk : {uint64_t{100}, cuda::kSumChunk}) {
        for (const bool in_place : {false, true}) {
          std::vector<SumRank> ranks(RanksOf(hosts));
          std::vector<std::vector<float>> inputs;
          for (size_t r = 0; r < ranks.size(); ++r) {
            ranks[r].input = Wide(count, 10 * count + r);
            inputs.push_back(ranks[r].input);
          }
          SumOverNccl(ranks, hosts, chunk, in_place);
          const std::vector<float> sums = PlainSums(inputs, hosts, chunk);
          for (size_t r = 0; r < ranks.size(); ++r) {
            ASSERT_EQ(ranks[r].output, sums) << "rank " << r << " of " << count << " elements";
            ASSERT_EQ(ranks[r].input, inputs[r]);
          }
        }
      }
    }
  }
}

// Whole numbers that bfloat16 holds, as their sums.
TEST(CudaSum, BFloat16IsSummedAsItIs) {
  for (const Hosts& hosts : Layouts()) {
    for (const bool in_place : {false, true}) {
      std::vector<SumRankOf<uint16_t>> ranks(RanksOf(hosts));
      std::vector<uint16_t> sums(999);
      for (size_t i = 0; i < sums.size(); ++i) {
        float sum = 0;
        for (size_t r = 0; r < ranks.size(); ++r) {
          const auto value = static_cast<float>((i + 3 * r) % 16) - 8;
          ranks[r].input.push_back(ToBFloat16(value));
          sum += value;
        }
        sums[i] = ToBFloat16(sum);
      }
      SumOverNccl(ranks, hosts, 100, in_place);
      for (const auto& rank : ranks) ASSERT_EQ(rank.output, sums);
    }
  }
}

TEST(CudaSum, BFloat16IsRoundedOnce) {
  // 1 + 2^-8 is a tie, which goes to 1: twice in float they are 1 + 2^-7, rounded each time 1.
  const uint16_t own = ToBFloat16(1), rest[] = {ToBFloat16(0x1p-8f), ToBFloat16(0x1p-8f)};
  uint16_t sum = 0;
  EmulatedGrid::RunEach(1, [&](EmulatedThread& thread) {
    cuda::SumElements<uint16_t>(thread, {&own, rest, 2, 1, &sum, true});
  });
  EXPECT_EQ(FromBFloat16(sum), 1 + 0x1p-7f);
}

// What is on its way, the same memory for input and output: nothing is received where something
// else is sent from or received.
TEST(CudaSum, WhatIsReceivedOverlapsNothingElseOfItsStep) {
  using Range = std::array<uint64_t, 3>;  // memory, begin, end
  const auto range = [](const cuda::SumMessage& message) {
    const uint64_t memory = message.place == cuda::SumPlace::kStaging;
    return Range{memory, message.at, message.at + message.elements};
  };
  const auto overlap = [](const Range& a, const Range& b) {
    return a[0] == b[0] && a[1] < b[2] && b[1] < a[2];
  };
  for (const Hosts& hosts : Layouts()) {
    for (int rank = 0; rank < RanksOf(hosts); ++rank) {
      const cuda::SumPlan plan = cuda::SumPlanFor(hosts, rank, 1001, 128);
      for (const cuda::SumStep& step : plan.steps) {
        for (size_t i = 0; i < step.receives.size(); ++i) {
          const Range received = range(step.receives[i]);
          EXPECT_LE(received[2], received[0] == 1 ? plan.staging : 1001);
          for (size_t j = 0; j < i; ++j) {
            EXPECT_FALSE(overlap(received, range(step.receives[j])));
          }
          for (const cuda::SumMessage& sent : step.sends) {
            EXPECT_FALSE(overlap(received, range(sent)));
          }
        }
      }
    }
  }
}

// One sum of its ranks, and the sum of all for its share: as many bytes as if it had one rank.
TEST(CudaSum, AHostsNicCarriesOneSumHoweverManyRanksItHas) {
  constexpr uint64_t kElements = 16 * 256;
  const auto left = [](const Hosts& hosts) {
    std::vector<SumRank> ranks(RanksOf(hosts));
    for (SumRank& rank : ranks) rank.input.resize(kElements);
    return SumOverNccl(ranks, hosts, kElements / 2, false);
  };
  const auto share = [](uint64_t hosts) { return 2 * kElements * 4 / hosts * (hosts - 1); };
  EXPECT_EQ(left(EvenHosts(8, 4)), std::vector<uint64_t>(2, share(2)));
  EXPECT_EQ(left(EvenHosts(8, 2)), std::vector<uint64_t>(4, share(4)));
  EXPECT_EQ(left(EvenHosts(8, 8)), std::vector<uint64_t>(1, 0));
  EXPECT_EQ(left({{0, 1, 2, 3}, {4}}), std::vector<uint64_t>(2, share(2)));
}

TEST(CudaSum, IsForLongSumsOfAFewHostsWithSeveralRanks) {
  constexpr double kLong = kLeastSum;
  EXPECT_TRUE(SumsByHost(EvenHosts(16, 8), kLong));
  EXPECT_TRUE(SumsByHost(EvenHosts(64, 8), kLong));
  EXPECT_TRUE(SumsByHost({{0, 1, 2}, {3}}, kLong));
  EXPECT_TRUE(SumsByHost(EvenHosts(12, 2), kLong));   // 11/12, and 10/12 by the plan
  EXPECT_FALSE(SumsByHost(EvenHosts(14, 2), kLong));  // 13/14 and 12/14
  EXPECT_FALSE(SumsByHost(EvenHosts(128, 8), kLong));
  EXPECT_FALSE(SumsByHost(EvenHosts(16, 8), kLong - 1));
  EXPECT_FALSE(SumsByHost(EvenHosts(8, 8), kLong));  // one host
  EXPECT_FALSE(SumsByHost(OneEach(4), kLong));
}

TEST(CudaSum, StagingMemoryIsThatOfAChunk) {
  for (const Hosts& hosts : {EvenHosts(4, 2), EvenHosts(16, 8), EvenHosts(64, 8)}) {
    for (const uint64_t elements : {uint64_t{1}, uint64_t{1} << 20, uint64_t{1} << 28}) {
      const cuda::SumPlan plan = cuda::SumPlanFor(hosts, 1, elements);
      EXPECT_LE(plan.staging * sizeof(float), uint64_t{10} << 20);
    }
  }
  EXPECT_EQ(cuda::SumPlanFor(EvenHosts(4, 2), 0, 0).steps.size(), 0u);
}

}  // namespace
}  // namespace ringwood
