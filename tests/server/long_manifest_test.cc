// Manifests that are longer than a row or a message: how they are cut, stored, listed and damaged.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <filesystem>
#include <set>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "proto/call.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "server/store/record/manifest.h"
#include "server/store/record/manifest_rows.h"
#include "server/store/store_directory.h"
#include "server/store/view/prune.h"
#include "tests/server/checkpoints/served_store.h"
#include "tests/server/checkpoints/small_checkpoints.h"
#include "tests/server/checkpoints/stripe.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::CheckpointManifest ManifestOf(int items) {
  v1::CheckpointManifest manifest;
  manifest.set_format(kManifestFormat);
  manifest.set_job(7);
  manifest.set_epoch(2);
  manifest.set_step(30);
  manifest.set_world(4);
  manifest.set_unix_seconds(99);
  for (int i = 0; i < items; ++i) {
    v1::StoredItem* const item = manifest.add_items();
    item->set_name(absl::StrFormat("model/layers.%d.self_attention.query.weight", i));
    item->set_bytes(4);
    v1::StoredChunk* const chunk = item->add_chunks();
    chunk->set_bytes(4);
    chunk->set_sha256(std::string(32, static_cast<char>(i)));
    manifest.set_bytes(manifest.bytes() + 4);
  }
  return manifest;
}

StatusOr<v1::CheckpointManifest> Joined(const ManifestRows& rows) {
  RW_RETURN_IF_ERROR(CheckHead(rows.head, "it"));
  std::string body;
  for (const std::string& piece : rows.pieces) {
    RW_RETURN_IF_ERROR(AddPiece(rows.head, piece, "it", &body));
  }
  return WholeManifest(rows.head, body, "it");
}

TEST(Manifest, ShowsNoNameThatATerminalWouldObey) {
  v1::CheckpointManifest manifest = ManifestOf(1);
  manifest.mutable_items(0)->set_name("\x1b[2Jweights\n  shared other");
  const std::string shown = ToString(manifest);
  EXPECT_EQ(shown.find('\x1b'), std::string::npos) << shown;
  EXPECT_NE(shown.find("\\x1b[2Jweights\\n  shared other "), std::string::npos) << shown;
}

TEST(ManifestRows, AShortOneIsOneRowAsBefore) {
  const auto manifest = ManifestOf(100);
  const auto rows = RowsOf(manifest);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->pieces, IsEmpty());
  EXPECT_EQ(rows->head.SerializeAsString(), manifest.SerializeAsString());
  EXPECT_EQ(Joined(*rows)->SerializeAsString(), manifest.SerializeAsString());
}

TEST(ManifestRows, ALongOneComesBackFromAHeadAndPiecesThatAreSmall) {
  const auto manifest = ManifestOf(40'000);
  const auto rows = RowsOf(manifest);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_GT(rows->pieces.size(), 3u);
  EXPECT_LT(rows->head.ByteSizeLong(), 1000u);
  EXPECT_EQ(rows->head.bytes(), manifest.bytes());
  for (const std::string& piece : rows->pieces) EXPECT_LE(piece.size(), kManifestPieceBytes);
  EXPECT_EQ(Joined(*rows)->SerializeAsString(), manifest.SerializeAsString());
}

TEST(ManifestRows, AnyOtherPieceIsDamage) {
  const auto rows = *RowsOf(ManifestOf(40'000));
  const auto damage = [&](auto change) {
    ManifestRows changed = rows;
    change(&changed);
    return Joined(changed).status().code();
  };
  const auto kDamaged = StatusCode::kDataLoss;
  for (size_t i = 0; i < rows.pieces.size(); ++i) {
    EXPECT_EQ(damage([i](ManifestRows* r) { r->pieces[i][77] ^= 1; }), kDamaged);
    EXPECT_EQ(damage([i](ManifestRows* r) { r->pieces[i].pop_back(); }), kDamaged);
  }
  EXPECT_EQ(damage([](ManifestRows* r) { r->pieces.pop_back(); }), kDamaged);
  EXPECT_EQ(damage([](ManifestRows* r) { r->pieces.push_back(""); }), kDamaged);
  EXPECT_EQ(damage([](ManifestRows* r) { std::swap(r->pieces[0], r->pieces[1]); }), kDamaged);
  EXPECT_EQ(damage([](ManifestRows* r) { r->head.set_step(31); }), kDamaged);
  EXPECT_EQ(damage([](ManifestRows* r) { r->head.set_cut_bytes(~0ull); }), kDamaged);
  EXPECT_EQ(damage([](ManifestRows* r) { r->head.clear_cut_sha256(); }), kDamaged);
  EXPECT_EQ(damage([](ManifestRows* r) { r->head.set_format(3); }),
            StatusCode::kFailedPrecondition);
}

TEST(ManifestRows, OneThatIsTooLongIsRefusedWithTheNumbers) {
  const Status status = RowsOf(ManifestOf(40'000), 2'000'000).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("of step 30, with 40000 items, takes"));
  EXPECT_THAT(Message(status), HasSubstr("1.5 million items"));
}

constexpr int kSharedItems = 24'000;  // and so many of each rank
std::string ItemName(int i) { return absl::StrFormat("model/layers.%06d.attention.weight", i); }

// Two ranks with their own items, and shared ones by turns.
Status SaveTensOfThousands(StripeCollector* collector, const CheckpointId& id) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    v1::SaveChunk chunk;
    chunk.set_epoch(id.epoch);
    chunk.set_step(id.step);
    chunk.set_rank(rank);
    chunk.set_world(kWorld);
    chunk.set_incarnation(1 + rank);
    chunk.set_data("data");
    chunk.set_item_bytes(4);
    chunk.set_checksum(Digest(std::as_bytes(std::span(chunk.data()))));
    std::unique_ptr<StripeCollector::Incoming> incoming;
    for (int i = 0; i < 2 * kSharedItems; ++i) {
      const bool shared = i < kSharedItems;
      if (shared && static_cast<uint32_t>(i) % kWorld != rank) continue;
      chunk.set_item(ItemName(i));
      chunk.set_scope(shared ? v1::SCOPE_SHARED : v1::SCOPE_OWN);
      if (incoming == nullptr) {
        RW_ASSIGN_OR_RETURN(incoming, collector->Begin(chunk));
      }
      RW_RETURN_IF_ERROR(WriteChunk(incoming.get(), chunk));
    }
    RW_RETURN_IF_ERROR(KeepStripe(incoming.get()).status());
  }
  return collector->Outcome(id.epoch, id.step).value_or(Internal("not complete"));
}

class LongManifest : public testing::Test {
 protected:
  LongManifest() : folder_(MakeMemoryFolder()), store_(folder_ + "/store") {
    EXPECT_TRUE(PrepareStore(store_).ok());
    auto store = CheckpointStore::Open(store_ + "/checkpoints");
    StripeCollector collector(store->get(), [] { return int64_t{1}; });
    collector.SetEpoch(RecordOf(1));
    EXPECT_TRUE(SaveAll(&collector, {1, 10}).ok());
    const Status saved = SaveTensOfThousands(&collector, {1, 20});
    EXPECT_TRUE(saved.ok()) << saved;
  }
  ~LongManifest() override { fs::remove_all(folder_); }

  std::unique_ptr<rocksdb::DB> OpenRaw() {
    rocksdb::DB* opened = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(rocksdb::Options(), store_ + "/checkpoints", &opened).ok());
    return std::unique_ptr<rocksdb::DB>(opened);
  }

  const std::string folder_, store_;
};

TEST_F(LongManifest, IsListedShownAndVerified) {
  const auto list = ListCheckpoints(store_);
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), 2u);
  EXPECT_TRUE(list->front().complete);
  EXPECT_EQ(list->front().bytes, 4u * 3 * kSharedItems);
  const auto shown = ShowCheckpoint(store_, {1, 20});
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->items_size(), 3 * kSharedItems);
  EXPECT_GT(shown->ByteSizeLong(), 4u << 20) << "as one message it would not arrive";
  EXPECT_TRUE(VerifyCheckpoint(store_, {1, 20}).ok());
}

TEST_F(LongManifest, ADamagedPieceCostsThatCheckpointAndIsFoundBeforeAResume) {
  const std::string key = ChunkKey({1, 20}, kManifestRank, 2);
  {
    const auto db = OpenRaw();
    std::string piece;
    ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), key, &piece).ok());
    piece[100] ^= 1;
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), key, piece).ok());
  }
  const Status damaged = VerifyCheckpoint(store_, {1, 20});
  EXPECT_EQ(damaged.code(), StatusCode::kDataLoss);
  EXPECT_THAT(Message(damaged), HasSubstr("the manifest of step 20 (epoch 1): its piece 3 of"));
  const auto pruned = PruneStore(store_, {}, true, {});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  ASSERT_EQ(pruned->damaged.size(), 1u);
  EXPECT_EQ(pruned->damaged[0].step, 20u);
  ASSERT_TRUE(OpenRaw()->Delete(rocksdb::WriteOptions(), key).ok());
  EXPECT_THAT(Message(VerifyCheckpoint(store_, {1, 20})), HasSubstr("missing"));
  const auto store = CheckpointStore::Open(store_ + "/checkpoints");
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->NewestGood(kJob)->value().step, 10u) << "the one before is used";
}

TEST_F(LongManifest, GoesWithItsCheckpoint) {
  {
    auto store = CheckpointStore::Open(store_ + "/checkpoints");
    ASSERT_TRUE(store.ok()) << store.status();
    (*store)->Drop({1, 20});
    EXPECT_THAT(*(*store)->reader().WithChunks(), ElementsAre(CheckpointId{1, 10}));
  }
  const auto db = OpenRaw();
  std::string piece;
  EXPECT_TRUE(
      db->Get(rocksdb::ReadOptions(), ChunkKey({1, 20}, kManifestRank, 0), &piece).IsNotFound());
}

TEST_F(LongManifest, ARankIsToldWhatItCanLoadInMessagesOfBoundedSize) {
  StoreService::Options options;
  options.directory = store_ + "/checkpoints";
  ServedStore served(options);
  const auto stub = v1::Store::NewStub(served.channel());
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(Seconds(60)));
  v1::ItemsRequest request;
  request.set_epoch(1);
  request.set_step(20);
  request.set_rank(1);
  const auto reader = stub->Items(&context, request);
  v1::ItemsPart part;
  int parts = 0;
  std::set<std::string> shared, own;
  while (reader->Read(&part)) {
    ++parts;
    EXPECT_LT(part.list().size(), 1u << 20);
    EXPECT_EQ(part.checksum(), Digest(std::as_bytes(std::span(part.list()))));
    v1::ItemList list;
    ASSERT_TRUE(list.ParseFromString(part.list()));
    for (const v1::ListedItem& item : list.items()) {
      EXPECT_EQ(item.bytes(), 4u);
      (item.scope() == v1::SCOPE_SHARED ? shared : own).insert(item.name());
    }
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(part.last());
  EXPECT_GT(parts, 3);
  EXPECT_EQ(shared.size(), size_t{kSharedItems});
  EXPECT_TRUE(shared.contains(ItemName(0)));
  EXPECT_EQ(own.size(), size_t{kSharedItems});
  EXPECT_TRUE(own.contains(ItemName(kSharedItems)));
}

}  // namespace
}  // namespace ringwood
