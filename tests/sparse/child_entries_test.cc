#include "sparse/reducer/child_entries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "sparse/chunks.h"
#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

constexpr uint64_t kElements = 5 * kBlockElements;

// Three workers, one reducer: node 3, whose children are the workers.
ReducerPart ThreeWorkers(uint64_t k) {
  const TreeShape shape{.workers = 3, .reducers = 1};
  return *PartOf(shape, 3, {.elements = kElements, .k = k}, 0);
}

// A chunk of the child's message is in its inbox.
Status Bring(const ReducerPart& part, const Entries& entries, size_t child, int chunk,
             ChildEntries* sent) {
  const Cut cut{entries.size(), part.chunks};
  const uint64_t begin = cut.begin(chunk), count = cut.begin(chunk + 1) - begin;
  const std::span<std::byte> inbox = sent->Inbox(child, chunk);
  const uint64_t bytes = Encode(part.CodecOf(child), {0, part.elements},
                                EntriesView(entries).Part(begin, count), inbox);
  return sent->Take(child, chunk, inbox.first(bytes));
}

std::vector<Entries> OfThree(uint64_t k, uint64_t seed) {
  std::vector<Entries> children;
  for (uint64_t c = 0; c < 3; ++c) {
    children.push_back(RandomEntries(kElements, k - c * 1000, seed + c));
  }
  return children;
}

TEST(ChildEntries, AddUpToTheSameInWhateverOrderChunksCome) {
  const uint64_t k = 40'000;
  const ReducerPart part = ThreeWorkers(k);
  ASSERT_GT(part.chunks, 2);
  ChildEntries sent(part);
  BlockRoom room;
  Random random(3);
  for (uint64_t round = 0; round < 20; ++round) {
    const std::vector<Entries> children = OfThree(k, 100 * round);
    std::vector<int> order(3 * static_cast<size_t>(part.chunks));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    sent.Restart();
    for (const int number : order) {
      EXPECT_FALSE(sent.complete());
      const auto child = static_cast<size_t>(number / part.chunks);
      ASSERT_TRUE(Bring(part, children[child], child, number % part.chunks, &sent).ok());
      sent.Merge(&room);
    }
    EXPECT_TRUE(sent.complete());
    EXPECT_TRUE(std::equal(children.begin(), children.end(), sent.entries().begin()));
    EXPECT_EQ(*sent.sum(), MergeSum(children, kElements));
  }
}

TEST(ChildEntries, NameTheChildWhoseBytesAreNoEntries) {
  const ReducerPart part = ThreeWorkers(100);
  ChildEntries sent(part);
  sent.Restart();
  const Status bad = sent.Take(1, 0, sent.Inbox(1, 0).first(3));
  EXPECT_EQ(bad.code(), StatusCode::kDataLoss);
  EXPECT_NE(Message(bad).find("from node 1"), std::string::npos) << Message(bad);
}

TEST(ChildEntries, ALostChildIsAFailureOnceSomebodyWaits) {
  const ReducerPart part = ThreeWorkers(100);
  ChildEntries sent(part);
  for (const bool all_leave : {true, false}) {
    sent.Restart();
    sent.Lose(2, Unavailable("node 2 is gone"));
    sent.Lose(2, Unavailable("node 2 is gone, its next chunk says"));
    sent.Lose(0, Unavailable("node 0 is gone"));
    EXPECT_TRUE(sent.Failure().ok()) << "peers may leave between rounds";
    if (all_leave) {
      sent.Lose(1, Unavailable("node 1 is gone"));
    } else {
      ASSERT_TRUE(Bring(part, RandomEntries(kElements, 10, 1), 1, 0, &sent).ok());
    }
    EXPECT_EQ(Message(sent.Failure()), "node 2 is gone");
  }
  sent.Restart();
  EXPECT_TRUE(sent.Failure().ok());
}

TEST(ChildEntries, KeepOfTheSumWhatAcceptedAbove) {
  const ReducerPart part = ThreeWorkers(100);
  ChildEntries sent(part);
  BlockRoom room;
  sent.Restart();
  const Entries ten = RandomEntries(kElements, 10, 4);
  for (size_t c = 0; c < 3; ++c) ASSERT_TRUE(Bring(part, ten, c, 0, &sent).ok());
  sent.Merge(&room);
  EXPECT_EQ(sent.KeepAccepted(std::vector<std::byte>(3)).code(), StatusCode::kDataLoss);
  // Bits 0, 3 and 9.
  ASSERT_TRUE(sent.KeepAccepted(std::vector<std::byte>{std::byte{9}, std::byte{2}}).ok());
  EXPECT_EQ(sent.sum()->index, (std::vector<uint32_t>{ten.index[0], ten.index[3], ten.index[9]}));
}

}  // namespace
}  // namespace ringwood
