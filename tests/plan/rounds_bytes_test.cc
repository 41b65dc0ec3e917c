// The bytes that `ringwood plan --rounds` counts with are those of the real codecs.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "plan/strategy/rounds.h"
#include "sparse/codec.h"
#include "sparse/merge.h"
#include "sparse/sparse_tensor.h"

namespace ringwood {
namespace {

constexpr uint64_t kElements = 1 << 20, kSelectedOf = 4096;

// The entries that a worker selects of values with heavy tails, as the codec has them.
Entries PicksOf(const Codec& codec, double density, int worker) {
  Random random(static_cast<uint64_t>(worker));
  std::vector<float> values(kElements);
  for (float& value : values) {
    value = static_cast<float>(-std::log(1 - random.Unit()) * (random.Below(2) == 0 ? 1 : -1));
  }
  const auto k = static_cast<uint64_t>(density * kElements);
  SparseTensor tensor(kElements, {.k = k, .chunk_elements = kSelectedOf});
  tensor.Accumulate(values, 1);
  Entries picks = tensor.picks();
  RoundValues(codec, picks.value);
  return picks;
}

double BytesOf(const Codec& codec, const Entries& entries) {
  std::vector<std::byte> wire(MaxWireBytes(codec, kElements, entries.size()));
  return static_cast<double>(Encode(codec, {0, kElements}, entries, wire));
}

class RoundsBytes : public testing::TestWithParam<int> {};

TEST_P(RoundsBytes, AreThoseOfTheCodecs) {
  RoundsInput input;
  input.plan.tensors = {{"a", kElements}};
  input.plan.forward_seconds = 0.1;
  input.plan.world = GetParam();
  const auto choices = PlanRounds(input);
  ASSERT_TRUE(choices.ok()) << choices.status();
  int sparse = 0;
  for (const RoundsChoice& choice : *choices) {
    if (choice.density == 1) continue;
    SCOPED_TRACE(choice.codec + " at " + std::to_string(choice.density));
    ++sparse;
    const Codec codec = *ParseCodec(choice.codec);
    std::vector<Entries> picks;
    for (int worker = 0; worker < GetParam(); ++worker) {
      picks.push_back(PicksOf(codec, choice.density, worker));
    }
    const double sent = BytesOf(codec, picks[0]);
    const double received = BytesOf(codec.Exact(), MergeSum(picks, kElements));
    EXPECT_NEAR(choice.sent_bytes / sent, 1, 0.1);
    EXPECT_NEAR(choice.received_bytes / received, 1, 0.1);
  }
  EXPECT_GE(sparse, 4);
}

INSTANTIATE_TEST_SUITE_P(Worlds, RoundsBytes, testing::Values(2, 4, 8, 16));

}  // namespace
}  // namespace ringwood
