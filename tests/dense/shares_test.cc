#include "dense/shares.h"

#include "dense/choose.h"
#include "dense/cut.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

// Small integers, so that every order of additions gives the same sum.
template <typename T>
std::vector<T> ShareValues(size_t count, int rank) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(i % 13 + rank);
  return values;
}

template <typename T>
SharesRequest RequestOf(int rank, int world, uint64_t round, DataType type, std::vector<T>& data) {
  SharesRequest request;
  request.place.rank = rank;
  request.place.world = world;
  request.name.round = round;
  request.type = type;
  request.data = std::as_writable_bytes(std::span(data));
  return request;
}

using Starter = void (*)(Transport*, const SharesRequest&, std::function<void(Status)>);

template <typename T>
void RunAll(World& world, Starter start, uint64_t round, DataType type, ReduceOp op,
            size_t message_bytes, std::vector<std::vector<T>>* data, const Hosts& hosts = {}) {
  world.RunAll([&](int rank, std::function<void()> finished) {
    SharesRequest request = RequestOf(rank, world.size(), round, type, (*data)[rank]);
    request.op = op;
    request.message_bytes = message_bytes;
    request.place.hosts = hosts;
    start(world.transport(rank), request, [finished](Status status) {
      EXPECT_TRUE(status.ok()) << Message(status);
      finished();
    });
  });
}

class SharesOver : public testing::TestWithParam<Kind> {};

template <typename T>
void Check(World& world, uint64_t* round, DataType type, size_t count, size_t message_bytes,
           const Hosts& hosts = {}) {
  const int size = world.size();
  std::vector<std::vector<T>> data;
  for (int r = 0; r < size; ++r) data.push_back(ShareValues<T>(count, r));
  RunAll(world, StartReduceScatter, ++*round, type, ReduceOp::kSum, message_bytes, &data, hosts);
  const std::vector<Range> shares = CutEvenly(count, size);
  std::vector<T> sum(count);
  for (int r = 0; r < size; ++r) {
    const std::vector<T> values = ShareValues<T>(count, r);
    for (size_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] + values[i]);
  }
  for (int r = 0; r < size; ++r) {
    const std::vector<T> share(data[r].begin() + shares[r].begin,
                               data[r].begin() + shares[r].begin + shares[r].count);
    const std::vector<T> expected(sum.begin() + shares[r].begin,
                                  sum.begin() + shares[r].begin + shares[r].count);
    ASSERT_EQ(share, expected) << "rank " << r << " of " << size << ", " << count;
    // Only the own share is read by what follows.
    for (size_t i = 0; i < count; ++i) {
      if (i < shares[r].begin || i >= shares[r].begin + shares[r].count) data[r][i] = T{77};
    }
  }
  RunAll(world, StartAllGather, ++*round, type, ReduceOp::kSum, message_bytes, &data, hosts);
  for (int r = 0; r < size; ++r) ASSERT_EQ(data[r], sum) << "rank " << r << " of " << size;
}

TEST_P(SharesOver, AReduceScatterLeavesEachRankItsShareAndAnAllGatherSpreadsThem) {
  for (int size = 1; size <= 9; ++size) {
    World world(GetParam(), size);
    uint64_t round = 0;
    for (size_t count : {0, 1, 3, 1000, 50021}) {
      Check<float>(world, &round, DataType::kFloat32, count, 4096);
      Check<float>(world, &round, DataType::kFloat32, count, 0);
    }
    Check<double>(world, &round, DataType::kFloat64, 3001, 256);
    Check<int64_t>(world, &round, DataType::kInt64, 3001, 256);
    Check<uint8_t>(world, &round, DataType::kUInt8, 3001, 256);
  }
}

TEST_P(SharesOver, LongTensorsTakeRingsOfTheChosenMessages) {
  World world(GetParam(), 4);
  uint64_t round = 0;
  static_assert(((1 << 20) + 1) * sizeof(float) > kMaxDirectBytes);
  Check<float>(world, &round, DataType::kFloat32, (1 << 20) + 1, 0);
}

TEST_P(SharesOver, LongTensorsOfHostsWithSeveralRanksTakeTheHierarchy) {
  for (const Hosts& hosts :
       {EvenHosts(4, 2), EvenHosts(6, 3), Hosts{{0, 1, 2}, {3}}, Hosts{{0, 2, 4}, {1, 3}}}) {
    World world(GetParam(), RanksOf(hosts));
    uint64_t round = 0;
    for (const size_t count : {size_t{1000}, size_t{50021}, size_t{1 << 20} + 1}) {
      Check<float>(world, &round, DataType::kFloat32, count, 0, hosts);
    }
    for (const Verb verb : {Verb::kReduceScatter, Verb::kAllGather}) {
      CollectiveSpec spec;
      spec.verb = verb;
      spec.elements = 50021;
      EXPECT_EQ(CollectiveFor(spec, {1, world.size(), hosts}).strategy, Strategy::kHierarchy);
      EXPECT_EQ(CollectiveFor(spec, {1, world.size()}).strategy, Strategy::kRing);
    }
  }
}

TEST_P(SharesOver, MaximumAndMinimumAreOfTheShareToo) {
  World world(GetParam(), 3);
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    std::vector<std::vector<int32_t>> data = {{1, -5, 9}, {7, 0, -9}, {-1, 5, 0}};
    const std::vector<int32_t> expected =
        op == ReduceOp::kMax ? std::vector<int32_t>{7, 5, 9} : std::vector<int32_t>{-1, -5, -9};
    RunAll(world, StartReduceScatter, 1 + static_cast<uint64_t>(op), DataType::kInt32, op, 0,
           &data);
    for (int r = 0; r < 3; ++r) EXPECT_EQ(data[r][r], expected[r]);
  }
}

TEST_P(SharesOver, ARankThatLeavesIsNamed) {
  for (const Starter start : {StartReduceScatter, StartAllGather}) {
    World world(GetParam(), 3);
    std::vector<float> data(1 << 20);
    Answer answer;
    world.Run(0, [&] {
      start(world.transport(0), RequestOf(0, 3, 17, DataType::kFloat32, data), answer.ForSend());
    });
    world.Close(2, Aborted("leaving"));
    EXPECT_EQ(answer.Wait().code(), StatusCode::kUnavailable);
    EXPECT_NE(Message(answer.status).find("rank 2 (host h2)"), std::string::npos)
        << Message(answer.status);
    world.Close(0, Aborted("over"));
  }
}

TEST(SharesRequest, AreRefusedWhenTheyCannotRun) {
  for (const Starter start : {StartReduceScatter, StartAllGather}) {
    const auto refused = [start](const SharesRequest& request) {
      Status status;
      start(nullptr, request, [&](Status s) { status = s; });
      return status.code() == StatusCode::kInvalidArgument;
    };
    std::vector<std::byte> data(10);
    SharesRequest request;
    request.place.world = 2;
    request.data = data;
    EXPECT_TRUE(refused(request));  // 10 bytes are no floats
    request.data = std::span(data).first(8);
    request.place.rank = 2;
    EXPECT_TRUE(refused(request));
    request.place.rank = 0;
    request.type = static_cast<DataType>(99);
    EXPECT_TRUE(refused(request));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, SharesOver, testing::Values(Kind::kInProcess, Kind::kUcx),
                         [](const auto& info) { return NameOfKind(info.param); });

}  // namespace
}  // namespace ringwood
