// Checkpoints that several stores share: what makes a whole, and what a further store may remove,
// in random histories with crashes.
#include "server/store/record/parts.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/random.h"
#include "proto/call.h"
#include "proto/store_places.h"
#include "ringwood/v1/control.pb.h"
#include "ringwood/v1/parts.grpc.pb.h"
#include "server/store/record/manifest.h"
#include "server/store/record/manifest_rows.h"
#include "tests/server/checkpoints/served_store.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(StorePlaces, AreThoseOfTheEpochsServersInOrder) {
  v1::JoinResponse welcome;
  for (const char* address : {"", "", "", "h1:1", "", "h3:3"}) {
    v1::Member* const member = welcome.add_members();
    member->set_rank(static_cast<uint32_t>(welcome.members_size()));
    member->set_host(std::string(address).substr(0, 2));
    member->set_store_address(address);
  }
  const auto places = FurtherStores(welcome.members(), 3);
  EXPECT_THAT(places, ElementsAre(StorePlace{4, "h1", "h1:1"}, StorePlace{6, "h3", "h3:3"}));
  EXPECT_THAT(FurtherStores(welcome.members(), 2), ElementsAre(places[0])) << "a rank for each";
  EXPECT_THAT(FurtherStores(welcome.members(), 1), IsEmpty());
}

TEST(StorePlaces, EveryRankHasOneStoreAndEveryStoreARank) {
  for (uint32_t world = 1; world < 40; ++world) {
    for (size_t further = 0; further < world; ++further) {
      std::map<uint32_t, uint32_t> ranks;
      for (uint32_t rank = 0; rank < world; ++rank) ++ranks[StoreOfRank(rank, further)];
      ASSERT_EQ(ranks.size(), further + 1);
      EXPECT_EQ(StoreOfRank(0, further), 0u);
      for (const auto& [store, count] : ranks) {
        EXPECT_EQ(RanksOfStore(store, further, world), count);
      }
    }
  }
  EXPECT_EQ(RanksOfStore(2, 3, 2), 0u);
}

// What the ranks of a world bring of some items: chunk c of the shared ones is rank c mod world's.
using Stripes = std::map<uint32_t, Stripe>;

v1::StoredItem& ItemOf(Stripe* stripe, const v1::StoredItem& like) {
  for (v1::StoredItem& item : *stripe) {
    if (item.name() == like.name() && item.scope() == like.scope()) return item;
  }
  return stripe->emplace_back(like);
}

Stripes RandomStripes(uint32_t world, Random* random) {
  Stripes stripes;
  std::map<uint32_t, uint32_t> sequences;
  uint64_t piece = 0;
  const auto add = [&](v1::StoredItem like, std::optional<uint32_t> owner) {
    const uint64_t chunks = random->Below(7);
    like.set_bytes(chunks * 10);
    uint64_t at = 0;
    do {
      const uint32_t by = owner.value_or(static_cast<uint32_t>(piece++ % world));
      v1::StoredItem& item = ItemOf(&stripes[by], like);
      item.set_rank(by);
      if (chunks == 0) return;
      v1::StoredChunk* const chunk = item.add_chunks();
      chunk->set_offset(at);
      chunk->set_bytes(10);
      chunk->set_rank(by);
      chunk->set_sequence(sequences[by]++);
      chunk->set_digest(random->Next());
      at += 10;
    } while (at < like.bytes());
  };
  for (uint64_t i = random->Below(9); i > 0; --i) {
    v1::StoredItem like;
    like.set_name("shared " + std::to_string(i));
    like.set_scope(v1::SCOPE_SHARED);
    add(like, std::nullopt);
  }
  for (uint32_t rank = 0; rank < world; ++rank) {
    v1::StoredItem like;
    like.set_name("own");
    like.set_scope(v1::SCOPE_OWN);
    add(like, rank);
  }
  return stripes;
}

// As the stores have them: the main one's part, then the further ones'.
std::vector<v1::CheckpointManifest> Divided(const Stripes& stripes, size_t further) {
  std::vector<v1::CheckpointManifest> manifests;
  for (uint32_t store = 0; store <= further; ++store) {
    Stripes own;
    for (const auto& [rank, stripe] : stripes) {
      if (StoreOfRank(rank, further) == store) own[rank] = stripe;
    }
    auto manifest = Assemble(own, {}, true);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    manifests.push_back(*std::move(manifest));
  }
  return manifests;
}

StatusOr<v1::CheckpointManifest> United(const std::vector<v1::CheckpointManifest>& divided) {
  std::vector<StoredPart> parts;
  for (size_t part = 1; part < divided.size(); ++part) {
    v1::CheckpointPart place;
    place.set_bytes(divided[part].bytes());
    parts.push_back({place, divided[part]});
  }
  return Unite(divided[0], std::move(parts));
}

TEST(Parts, MakeTheCheckpointThatOneStoreWouldHave) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto world = static_cast<uint32_t>(1 + random.Below(6));
    const size_t further = random.Below(world);
    const Stripes stripes = RandomStripes(world, &random);
    const auto whole = Assemble(stripes);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const auto divided = Divided(stripes, further);
    const auto united = United(divided);
    ASSERT_TRUE(united.ok()) << united.status();
    EXPECT_EQ(united->bytes(), whole->bytes());
    EXPECT_EQ(StoredBytes(*united), divided[0].bytes());
    ASSERT_EQ(united->items_size(), whole->items_size());
    uint64_t elsewhere = 0;
    for (int i = 0; i < whole->items_size(); ++i) {
      v1::StoredItem item = united->items(i);
      for (v1::StoredChunk& chunk : *item.mutable_chunks()) {
        EXPECT_EQ(chunk.part(), StoreOfRank(chunk.rank(), further));
        if (chunk.part() != 0) elsewhere += chunk.bytes();
        chunk.clear_part();
      }
      EXPECT_EQ(item.DebugString(), whole->items(i).DebugString());
    }
    uint64_t listed = 0;
    for (const v1::CheckpointPart& part : united->parts()) listed += part.bytes();
    EXPECT_EQ(listed, elsewhere);
    const auto rows = RowsOf(*united);
    ASSERT_TRUE(rows.ok());
    EXPECT_TRUE(WholeManifest(rows->head, "", "it").ok());
  }
}

TEST(Parts, ThatLackAChunkMakeNone) {
  Random random(1);
  for (int round = 0; round < 100; ++round) {
    const Stripes stripes = RandomStripes(3, &random);
    auto divided = Divided(stripes, 2);
    v1::CheckpointManifest& one = divided[random.Below(3)];
    if (one.items().empty()) continue;
    auto* const item = one.mutable_items(static_cast<int>(random.Below(one.items_size())));
    if (item->chunks().empty()) continue;
    const bool twice = random.Below(2) == 0;
    twice ? (void)(*item->add_chunks() = item->chunks(0)) : item->mutable_chunks()->RemoveLast();
    const auto united = United(divided);
    EXPECT_EQ(united.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(united.status()),
                ::testing::AnyOf(HasSubstr("a gap"), HasSubstr("overlap"), HasSubstr("ends at")));
  }
}

TEST(Parts, AreCheckedAgainstWhatTheMainStoreAskedFor) {
  v1::CheckpointManifest part;
  part.set_job(7);
  part.set_epoch(2);
  part.set_step(10);
  part.set_part(1);
  part.set_stores(3);
  EXPECT_TRUE(CheckPart(part, 7, {2, 10}, 1, 3).ok());
  EXPECT_EQ(CheckPart(part, 7, {2, 10}, 2, 3).code(), StatusCode::kDataLoss);
  EXPECT_EQ(CheckPart(part, 7, {2, 10}, 1, 2).code(), StatusCode::kDataLoss);
  EXPECT_EQ(CheckPart(part, 7, {2, 11}, 1, 3).code(), StatusCode::kDataLoss);
  EXPECT_EQ(CheckPart(part, 8, {2, 10}, 1, 3).code(), StatusCode::kDataLoss);
}

TEST(Parts, OfSmallItemsThoseThatAreHereTravelAhead) {
  v1::CheckpointManifest manifest;
  for (uint32_t i = 0; i < 6; ++i) {
    v1::StoredItem* const item = manifest.add_items();
    item->set_name(std::string(1, static_cast<char>('a' + i)));
    item->set_scope(v1::SCOPE_SHARED);
    item->set_bytes(10);
    item->add_chunks()->set_bytes(10);
    item->mutable_chunks(0)->set_part(i % 2);
  }
  const OpenedCheckpoint opened(manifest);
  std::string names;
  for (const auto* item : opened.SmallAfter(opened.manifest().items(0), 1000))
    names += item->name();
  EXPECT_EQ(names, "ce");
}

// One further store as the protocol has it. What is sent arrives late, or never; what is on a disk
// survives its process.
class PartHistory {
 public:
  PartHistory(uint64_t seed, bool decides_before) : random_(seed), before_(decides_before) {}

  void Step() {
    switch (random_.Below(12)) {
      case 0:
        return Begin();
      case 1:
      case 2:
        return PartPublishes();
      case 3:
      case 4:
        return WholePublishes();
      case 5:
        return Prune();
      case 6:
        return Ask();
      case 7:
        return Answer();
      case 8:
        return Decide();
      case 9:
        return Remove();
      case 10:
        return random_.Below(4) == 0 ? MainCrashes() : Fail();
      default:
        return random_.Below(4) == 0 ? PartCrashes() : Fail();
    }
  }
  // The main store asks at last, and nothing comes in between.
  void End() {
    while (!under_way_.empty()) FailOne(*under_way_.begin());
    asked_.clear(), listed_.clear(), orders_.clear();
    Ask(), Answer(), Decide(), Remove();
  }

  bool Holds() const { return std::ranges::includes(parts_, wholes_); }
  const std::set<CheckpointId>& parts() const { return parts_; }
  const std::set<CheckpointId>& wholes() const { return wholes_; }
  int published() const { return published_; }

 private:
  struct Question {
    std::set<CheckpointId> complete, under_way;  // when it was asked
    std::vector<CheckpointId> there;
  };

  void Begin() {
    if (under_way_.size() < 2) under_way_.insert({1, ++step_});
  }
  // The part's ranks have brought it; the main store is told, if it still waits.
  void PartPublishes() {
    if (under_way_.empty()) return;
    const CheckpointId id = *under_way_.begin();
    parts_.insert(id);
    if (random_.Below(8) > 0) told_.insert(id);
  }
  void WholePublishes() {
    if (told_.empty()) return;
    const CheckpointId id = *told_.begin();
    told_.erase(id);
    if (under_way_.erase(id) == 0) return;  // it failed meanwhile
    wholes_.insert(id);
    ++published_;
  }
  void FailOne(const CheckpointId id) {
    under_way_.erase(id);
    told_.erase(id);
  }
  void Fail() {
    if (!under_way_.empty()) FailOne(*under_way_.begin());
  }
  void Prune() {
    if (wholes_.size() > 2) wholes_.erase(wholes_.begin());
  }
  void Ask() { asked_.push_back({wholes_, under_way_, {}}); }
  void Answer() {
    if (asked_.empty()) return;
    Question question = asked_.front();
    asked_.pop_front();
    question.there.assign(parts_.begin(), parts_.end());
    listed_.push_back(question);
  }
  void Decide() {
    if (listed_.empty()) return;
    const Question& question = listed_.front();
    orders_.push_back(before_ ? Orphans(question.there, question.complete, question.under_way)
                              : Orphans(question.there, wholes_, under_way_));
    listed_.pop_front();
  }
  void Remove() {
    if (orders_.empty()) return;
    for (const CheckpointId& id : orders_.front()) parts_.erase(id);
    orders_.pop_front();
  }
  // What it sent before may still arrive.
  void MainCrashes() {
    while (!under_way_.empty()) FailOne(*under_way_.begin());
    listed_.clear();
  }
  void PartCrashes() {
    asked_.clear(), orders_.clear();
    while (!under_way_.empty()) FailOne(*under_way_.begin());  // its calls break
  }

  Random random_;
  const bool before_;  // a mistake: what is alive is looked at before the question, not after
  uint64_t step_ = 0;
  int published_ = 0;
  std::set<CheckpointId> parts_, wholes_;    // on the disks
  std::set<CheckpointId> under_way_, told_;  // of the main store's process
  std::deque<Question> asked_, listed_;      // on their way to the further store, and back
  std::deque<std::vector<CheckpointId>> orders_;
};

TEST(Parts, AWholeHasItsPartWhateverDiesAndOrphansGo) {
  int published = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    PartHistory history(seed, false);
    for (int step = 0; step < 400; ++step) {
      history.Step();
      ASSERT_TRUE(history.Holds()) << "seed " << seed << ", step " << step;
    }
    history.End();
    EXPECT_TRUE(history.Holds());
    EXPECT_EQ(history.parts(), history.wholes()) << "seed " << seed;
    published += history.published();
  }
  EXPECT_GT(published, 500 * 5);
}

TEST(Parts, ThatWereChosenBeforeTheyAreListedWouldBeLost) {
  int lost = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PartHistory history(seed, true);
    for (int step = 0; step < 400 && history.Holds(); ++step) history.Step();
    lost += !history.Holds();
  }
  EXPECT_GT(lost, 100) << "the model finds the mistake that the rule avoids";
}

// A further store as the main one asks it, over the network.
class FurtherStoreTest : public testing::Test {
 protected:
  FurtherStoreTest() {
    std::string pattern = testing::TempDir() + "/ringwood-further-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    StoreService::Options options;
    options.directory = directory_;
    options.further = true;
    served_.emplace(options);
    stub_ = v1::Parts::NewStub(served_->channel());
  }
  ~FurtherStoreTest() override {
    served_.reset();  // RocksDB removes old tables on a thread of its own
    std::filesystem::remove_all(directory_);
  }

  // Part 1 of two, of a checkpoint of two ranks in epoch 3.
  static v1::GatherRequest Request() {
    v1::GatherRequest request;
    request.mutable_record()->set_epoch(3);
    request.mutable_record()->set_origin(1);
    request.mutable_record()->set_world(2);
    request.mutable_record()->add_members();
    request.mutable_record()->add_members();
    request.set_step(20);
    request.set_part(1);
    request.set_stores(2);
    request.set_main(7);
    return request;
  }
  grpc::Status Gather(const v1::GatherRequest& request, double seconds) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(Seconds(seconds)));
    const auto reader = stub_->Gather(&context, request);
    v1::GatheredPart part;
    EXPECT_FALSE(reader->Read(&part));
    return reader->Finish();
  }

  std::string directory_;
  std::optional<ServedStore> served_;
  std::unique_ptr<v1::Parts::Stub> stub_;
};

TEST_F(FurtherStoreTest, APartThatCannotBeIsRefusedAndTheNextIsWaitedFor) {
  const auto refused = [this](auto spoil) {
    v1::GatherRequest request = Request();
    spoil(&request);
    const grpc::Status answer = Gather(request, 60);
    EXPECT_EQ(answer.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << answer.error_message();
  };
  refused(
      [](auto* it) { it->mutable_record()->set_origin(4); });  // a history from a later epoch on
  refused([](auto* it) { it->mutable_record()->set_epoch(0); });
  refused([](auto* it) { it->mutable_record()->set_world(0); });
  refused([](auto* it) { it->mutable_record()->set_world(3); });  // of which two are known
  refused([](auto* it) { it->set_part(0); });
  refused([](auto* it) { it->set_part(2); });
  refused([](auto* it) { it->set_stores(3); });
  v1::GatherRequest first = Request();
  first.mutable_record()->set_origin(3);
  EXPECT_EQ(Gather(first, 0.2).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED)
      << "no rank brings its stripe here";
}

}  // namespace
}  // namespace ringwood
