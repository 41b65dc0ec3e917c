#include "dense/pairwise/all_to_all.h"

#include <algorithm>
#include <numeric>

#include "dense/all_reduce.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

class AllToAllOver : public testing::TestWithParam<Kind> {};

// What rank `from` sends `to`: other lengths each way, nothing at all, and more than one chunk.
uint64_t Elements(int from, int to, uint64_t scale) {
  return (from + to) % 4 == 3 ? 0 : (static_cast<uint64_t>(from) * 7 + to) % 5 * scale + from;
}

TEST_P(AllToAllOver, EveryoneHasWhatEveryoneSentToIt) {
  for (int size = 1; size <= 9; ++size) {
    World world(GetParam(), size);
    uint64_t round = 0;
    for (const uint64_t scale : {0u, 1u, 1000u, 70'000u}) {
      if (size > 4 && scale > 1000) continue;
      ++round;
      std::vector<std::vector<int32_t>> in(size), out(size);
      std::vector<AllToAllRequest> requests(size);
      for (int rank = 0; rank < size; ++rank) {
        AllToAllRequest& request = requests[rank];
        for (int peer = 0; peer < size; ++peer) {
          request.sends.push_back(Elements(rank, peer, scale));
          request.receives.push_back(Elements(peer, rank, scale));
          in[rank].insert(in[rank].end(), request.sends.back(), rank * 100 + peer);
        }
        out[rank].resize(std::accumulate(request.receives.begin(), request.receives.end(), 0u));
        request.place.rank = rank;
        request.place.world = size;
        request.name.round = round;
        request.type = DataType::kInt32;
        request.input = std::as_bytes(std::span(in[rank]));
        request.output = std::as_writable_bytes(std::span(out[rank]));
      }
      world.RunAll([&](int rank, std::function<void()> finished) {
        StartAllToAll(world.transport(rank), requests[rank], [finished](Status status) {
          EXPECT_TRUE(status.ok()) << Message(status);
          finished();
        });
      });
      for (int rank = 0; rank < size; ++rank) {
        std::vector<int32_t> expected;
        for (int peer = 0; peer < size; ++peer) {
          expected.insert(expected.end(), Elements(peer, rank, scale), peer * 100 + rank);
        }
        ASSERT_EQ(out[rank], expected) << "rank " << rank << " of " << size;
      }
    }
  }
}

TEST_P(AllToAllOver, LengthsThatDoNotMeetAreAnError) {
  World world(GetParam(), 2);
  std::vector<int32_t> in(10), out(10);
  std::vector<Answer> answers(2);
  for (int rank = 0; rank < 2; ++rank) {
    AllToAllRequest request;
    request.place.rank = rank;
    request.place.world = 2;
    request.name.round = 1;
    request.type = DataType::kInt32;
    const uint64_t there = rank == 0 ? 10 : 0, here = rank == 0 ? 0 : 9;
    request.sends = rank == 0 ? std::vector<uint64_t>{0, there} : std::vector<uint64_t>{0, 0};
    request.receives = rank == 0 ? std::vector<uint64_t>{0, 0} : std::vector<uint64_t>{here, 0};
    request.input = std::as_bytes(std::span(in)).first(there * 4);
    request.output = std::as_writable_bytes(std::span(out)).first(here * 4);
    world.Run(rank,
              [&] { StartAllToAll(world.transport(rank), request, answers[rank].ForSend()); });
  }
  EXPECT_EQ(answers[1].Wait().code(), StatusCode::kInvalidArgument) << Message(answers[1].status);
  for (int rank = 0; rank < 2; ++rank) world.Close(rank, Aborted("the end"));
}

// A group of some nodes, whose ranks are not their numbers.
TEST_P(AllToAllOver, AReduceOfAGroupEndsOnItsRoot) {
  constexpr int kNodes = 6;
  const std::vector<int> members = {4, 1, 5, 0};
  World world(GetParam(), kNodes);
  for (const size_t elements : {1u, 1000u, 200'000u}) {
    for (int root = 0; root < 4; ++root) {
      std::vector<std::vector<float>> in(4), out(4, std::vector<float>(elements));
      for (int rank = 0; rank < 4; ++rank) in[rank].assign(elements, static_cast<float>(1 << rank));
      world.RunAll([&](int node, std::function<void()> finished) {
        const auto found = std::find(members.begin(), members.end(), node);
        if (found == members.end()) return finished();
        ReduceRequest request;
        request.place.rank = static_cast<int>(found - members.begin());
        request.place.world = 4;
        request.place.members = members;
        request.root = root;
        request.name.round = elements * 10 + root;
        request.input = std::as_bytes(std::span(in[request.place.rank]));
        request.output = std::as_writable_bytes(std::span(out[request.place.rank]));
        StartReduce(world.transport(node), request, [finished](Status status) {
          EXPECT_TRUE(status.ok()) << Message(status);
          finished();
        });
      });
      ASSERT_EQ(out[root], std::vector<float>(elements, 15.0f)) << "root " << root;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, AllToAllOver,
                         testing::Values(Kind::kInProcess, Kind::kUcx, Kind::kGrpc),
                         [](const auto& param) { return NameOfKind(param.param); });

}  // namespace
}  // namespace ringwood
