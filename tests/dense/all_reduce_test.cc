#include "dense/all_reduce.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "dense/ring.h"
#include "dense/slots.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

// Values whose sum depends on the order of additions.
std::vector<float> SumValues(size_t count, int rank) {
  Random random(rank + 1);
  std::vector<float> values(count);
  for (float& v : values) {
    v = static_cast<float>((random.Unit() - 0.5) * (1 << random.Below(20)));
  }
  return values;
}

std::vector<std::byte> Bytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Sequential, in the order that dense/ring.h documents.
std::vector<float> Reference(size_t count, int world, size_t chunk_elements) {
  std::vector<std::vector<float>> inputs;
  for (int r = 0; r < world; ++r) inputs.push_back(SumValues(count, r));
  std::vector<float> sum(count);
  for (size_t begin = 0; begin < count; begin += chunk_elements) {
    const auto slots = CutEvenly(std::min(chunk_elements, count - begin), world);
    for (int s = 0; s < world; ++s) {
      for (size_t i = begin + slots[s].begin; i < begin + slots[s].begin + slots[s].count; ++i) {
        sum[i] = inputs[s][i];
        for (int k = 1; k < world; ++k) sum[i] = inputs[(s + k) % world][i] + sum[i];
      }
    }
  }
  return sum;
}

struct Outcome {
  std::vector<std::byte> output;
  std::vector<std::byte> reached;  // as the output was then
  AllReduceResult result;
  Status status;
};

std::vector<Outcome> AllReduce(World& world, const AllReduceRequest& prototype,
                               const std::vector<std::vector<std::byte>>& inputs) {
  std::vector<Outcome> outcomes(world.size());
  world.RunAll([&](int rank, std::function<void()> finished) {
    outcomes[rank].output.resize(inputs[rank].size());
    AllReduceRequest request = prototype;
    request.place.rank = rank;
    request.place.world = world.size();
    request.input = inputs[rank];
    request.output = outcomes[rank].output;
    request.reached = [outcome = &outcomes[rank]](size_t elements) {
      const size_t before = outcome->reached.size(), now = elements * sizeof(float);
      ASSERT_GT(now, before);
      outcome->reached.insert(outcome->reached.end(), outcome->output.begin() + before,
                              outcome->output.begin() + now);
    };
    StartAllReduce(world.transport(rank), request,
                   [&, rank, finished](StatusOr<AllReduceResult> result) {
                     outcomes[rank].status = result.status();
                     if (result.ok()) outcomes[rank].result = *result;
                     finished();
                   });
  });
  return outcomes;
}

class AllReduceOver : public testing::TestWithParam<Kind> {};

TEST_P(AllReduceOver, EveryRankEndsWithTheSumInTheDocumentedOrder) {
  for (int size = 1; size <= 9; ++size) {
    World world(GetParam(), size);
    uint64_t round = 0;
    for (size_t count : {0, 1, 3, 1000, 50021}) {
      constexpr size_t kChunk = 4096;
      AllReduceRequest request;
      request.name.round = ++round;
      request.chunk_bytes = kChunk * sizeof(float);
      std::vector<std::vector<std::byte>> inputs;
      for (int r = 0; r < size; ++r) inputs.push_back(Bytes(SumValues(count, r)));
      const auto before = inputs;
      const auto outcomes = AllReduce(world, request, inputs);
      const auto expected = Bytes(Reference(count, size, kChunk));
      uint64_t sent = 0;
      for (int r = 0; r < size; ++r) {
        ASSERT_TRUE(outcomes[r].status.ok()) << Message(outcomes[r].status);
        ASSERT_EQ(outcomes[r].output, expected) << size << " ranks, " << count << " elements";
        if (size > 1) {
          EXPECT_EQ(outcomes[r].reached, expected);
        }
        EXPECT_EQ(outcomes[r].result.digest, outcomes[0].result.digest);
        sent += outcomes[r].result.sent_bytes;
      }
      EXPECT_EQ(sent, 2u * (size - 1) * count * sizeof(float));
      EXPECT_EQ(inputs, before);
    }
  }
}

TEST_P(AllReduceOver, TheChosenChunksGiveTheSameBitsOnAllRanks) {
  World world(GetParam(), 3);
  std::vector<std::vector<std::byte>> inputs;
  for (int r = 0; r < 3; ++r) inputs.push_back(Bytes(SumValues((1 << 20) + 1, r)));
  const auto outcomes = AllReduce(world, {}, inputs);
  for (int r = 0; r < 3; ++r) {
    ASSERT_TRUE(outcomes[r].status.ok()) << Message(outcomes[r].status);
    EXPECT_EQ(outcomes[r].output, outcomes[0].output);
    EXPECT_EQ(outcomes[r].result.digest, outcomes[0].result.digest);
  }
}

TEST_P(AllReduceOver, ShortTensorsGiveTheSameBitsOnAllRanksEvenWithNaNs) {
  for (int size = 2; size <= 9; ++size) {
    World world(GetParam(), size);
    std::vector<std::vector<std::byte>> inputs;
    std::vector<double> exact(1000);
    for (int r = 0; r < size; ++r) {
      auto values = SumValues(1000, r);
      for (size_t i = 0; i < values.size(); ++i) exact[i] += values[i];
      values[7] = std::bit_cast<float>(0x7fc00000u + r);  // a NaN that tells who it came from
      inputs.push_back(Bytes(values));
    }
    const auto outcomes = AllReduce(world, {}, inputs);
    for (int r = 0; r < size; ++r) {
      ASSERT_TRUE(outcomes[r].status.ok()) << Message(outcomes[r].status);
      ASSERT_EQ(outcomes[r].output, outcomes[0].output) << size;
      EXPECT_EQ(outcomes[r].result.digest, outcomes[0].result.digest);
    }
    std::vector<float> sum(1000);
    std::memcpy(sum.data(), outcomes[0].output.data(), 4000);
    EXPECT_TRUE(std::isnan(sum[7]));
    for (size_t i = 0; i < sum.size(); ++i) {
      if (i != 7) {
        ASSERT_NEAR(sum[i], exact[i], 1.0);
      }
    }
  }
}

TEST_P(AllReduceOver, InPlaceGivesTheSameBits) {
  World world(GetParam(), 4);
  constexpr size_t kCount = 10007;
  std::vector<std::vector<std::byte>> data;
  for (int r = 0; r < 4; ++r) data.push_back(Bytes(SumValues(kCount, r)));
  world.RunAll([&](int rank, std::function<void()> finished) {
    AllReduceRequest request;
    request.name.lane = Lane::kImmediate;
    request.place.rank = rank;
    request.place.world = 4;
    request.input = request.output = data[rank];
    request.chunk_bytes = 4096;
    StartAllReduce(world.transport(rank), request, [finished](StatusOr<AllReduceResult> result) {
      EXPECT_TRUE(result.ok()) << Message(result.status());
      finished();
    });
  });
  const auto expected = Bytes(Reference(kCount, 4, 1024));
  for (const auto& output : data) EXPECT_EQ(output, expected);
}

TEST_P(AllReduceOver, BroadcastReachesEveryRankFromEveryRoot) {
  for (int size = 1; size <= 9; ++size) {
    World world(GetParam(), size);
    uint64_t round = 0;
    for (int root = 0; root < size; ++root) {
      for (size_t bytes : {0, 1, 3001, 700001}) {
        if (bytes > 5000 && root != size / 2) continue;
        ++round;
        std::vector<std::vector<std::byte>> data(size, std::vector<std::byte>(bytes));
        for (size_t i = 0; i < bytes; ++i) data[root][i] = static_cast<std::byte>(i * 31 + root);
        const auto expected = data[root];
        world.RunAll([&](int rank, std::function<void()> finished) {
          StartBroadcast(
              world.transport(rank),
              {{rank, size}, root, {Lane::kImmediate, round}, DataType::kUInt8, data[rank]},
              [finished](Status status) {
                EXPECT_TRUE(status.ok()) << Message(status);
                finished();
              });
        });
        for (const auto& output : data) ASSERT_EQ(output, expected);
      }
    }
  }
}

TEST_P(AllReduceOver, ARankThatLeavesIsNamedToItsNeighbours) {
  World world(GetParam(), 3);
  const auto input = Bytes(SumValues(1 << 20, 0));
  std::vector<std::byte> output(input.size());
  Answer answer;
  world.Run(0, [&] {
    AllReduceRequest request;
    request.place.world = 3;
    request.input = input;
    request.output = output;
    StartAllReduce(world.transport(0), request, [&](StatusOr<AllReduceResult> result) {
      answer.status = result.status();
      answer.ready.Notify();
    });
  });
  world.Close(2, Aborted("leaving"));
  EXPECT_EQ(answer.Wait().code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(answer.status).find("rank 2 (host h2)"), std::string::npos)
      << Message(answer.status);
  world.Close(0, Aborted("over"));
}

// Silence is found by heartbeats, which close the transport; the answer says what was waited for.
TEST_P(AllReduceOver, ASilentRankEndsTheCallWithWhatWasAwaited) {
  World world(GetParam(), 3);
  const auto input = Bytes(SumValues(1 << 20, 0));
  std::vector<std::byte> output(input.size());
  Answer answer;
  world.Run(0, [&] {  // ranks 1 and 2 never come
    AllReduceRequest request;
    request.place.world = 3;
    request.name.round = 17;
    request.name.group = 5;
    request.input = input;
    request.output = output;
    StartAllReduce(world.transport(0), request, [&](StatusOr<AllReduceResult> result) {
      answer.status = result.status();
      answer.ready.Notify();
    });
  });
  EXPECT_FALSE(answer.ready.HasBeenNotified());
  world.Close(0, Unavailable("rank 2 (host h2) was silent for 5 s"));
  EXPECT_EQ(answer.Wait(5).code(), StatusCode::kUnavailable);
  const std::string message = Message(answer.status);
  for (const char* part : {"round 17", "group 5", "chunk 0", "rank 2 (host h2) was silent"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(AllReduce, RefusesWhatItCannotRun) {
  const auto refused = [](const AllReduceRequest& request) {
    Status status;
    StartAllReduce(nullptr, request, [&](StatusOr<AllReduceResult> r) { status = r.status(); });
    return status.code() == StatusCode::kInvalidArgument;
  };
  std::vector<std::byte> data(10);
  AllReduceRequest request;
  request.place.world = 2;
  request.input = request.output = data;
  EXPECT_TRUE(refused(request));  // 10 bytes are no floats
  request.input = request.output = std::span(data).first(8);
  request.wire = "fp8";
  EXPECT_TRUE(refused(request));
  request.wire = "bf16";
  EXPECT_TRUE(refused(request));  // no errors given
  std::vector<float> error(2), next(2);
  request.error = error;
  request.next_error = next;
  EXPECT_TRUE(refused(request));  // in place
  std::vector<std::byte> output(8);
  request.output = output;
  request.op = ReduceOp::kMax;
  EXPECT_TRUE(refused(request));
  request.op = ReduceOp::kSum;
  request.wire = "fp32";
  request.place.rank = 2;
  EXPECT_TRUE(refused(request));
}

INSTANTIATE_TEST_SUITE_P(Transports, AllReduceOver, testing::Values(Kind::kInProcess, Kind::kUcx),
                         [](const auto& info) { return NameOfKind(info.param); });

}  // namespace
}  // namespace ringwood
