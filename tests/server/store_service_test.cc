// The store's calls have a bound, and callers that go away leave.
#include "server/store/service/store_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <list>
#include <optional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "base/digest.h"
#include "proto/call.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "server/store/service/stripe_collector.h"
#include "tests/server/checkpoints/served_store.h"
#include "tests/server/checkpoints/stripe.h"

namespace ringwood {
namespace {

constexpr size_t kPiece = 1 << 20;
constexpr int kPieces = 8;  // far more than a stream takes that nobody reads

class StoreServiceTest : public testing::Test {
 protected:
  StoreServiceTest() : StoreServiceTest(nullptr) {}
  explicit StoreServiceTest(const StripeCollector::ReadBack& read_back) {
    std::string pattern = testing::TempDir() + "/ringwood-service-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    SaveOne(read_back);
    StoreService::Options options;
    options.directory = directory_;
    options.max_waiters = 3;
    options.max_loads = 1;
    served_.emplace(options);
    stub_ = v1::Store::NewStub(served_->channel());
  }
  ~StoreServiceTest() override {
    served_.reset();  // RocksDB removes old tables on a thread of its own
    std::filesystem::remove_all(directory_);
  }

  static v1::EpochRecord Alone() {
    v1::EpochRecord record;
    record.set_epoch(1);
    record.set_world(1);
    record.add_members();
    return record;
  }
  static v1::SaveChunk Piece(uint64_t step, size_t pieces) {
    v1::SaveChunk chunk;
    chunk.set_epoch(1);
    chunk.set_step(step);
    chunk.set_world(1);
    chunk.set_item("weights");
    chunk.set_scope(v1::SCOPE_SHARED);
    chunk.set_item_bytes(pieces * kPiece);
    chunk.set_data(std::string(kPiece, 'w'));
    chunk.set_checksum(Digest(std::as_bytes(std::span(chunk.data()))));
    return chunk;
  }

  void SaveOne(const StripeCollector::ReadBack& read_back) {
    auto store = CheckpointStore::Open(directory_);
    ASSERT_TRUE(store.ok()) << store.status();
    StripeCollector collector(
        store->get(), [] { return int64_t{1}; }, nullptr, read_back);
    collector.SetEpoch(Alone());
    v1::SaveChunk chunk = Piece(7, kPieces);
    auto incoming = collector.Begin(chunk);
    ASSERT_TRUE(incoming.ok()) << incoming.status();
    for (int piece = 0; piece < kPieces; ++piece) {
      chunk.set_offset(piece * kPiece);
      ASSERT_TRUE(WriteChunk(incoming->get(), chunk).ok());
    }
    ASSERT_TRUE(KeepStripe(incoming->get()).ok());
  }

  static void Limit(grpc::ClientContext* context) {
    context->set_deadline(DeadlineIn(Seconds(60)));
  }

  // As the one rank of epoch 1 does: a checkpoint of one piece.
  grpc::Status Save(uint64_t step) { return Save(Piece(step, 1)); }
  grpc::Status Save(v1::SaveChunk chunk) {
    grpc::ClientContext context;
    Limit(&context);
    v1::SaveReceipt receipt;
    const auto writer = stub_->Save(&context, &receipt);
    chunk.set_last(true);
    writer->WriteLast(chunk, grpc::WriteOptions());
    return writer->Finish();
  }

  // A reader that is no member, and the manifest that it gets.
  struct Reading {
    Reading(v1::Store::Stub* stub, uint64_t epoch, uint64_t step, double seconds = 60) {
      Limit(&context);
      v1::HoldRequest request;
      request.set_epoch(epoch);
      request.set_step(step);
      request.set_timeout_seconds(seconds);
      reader = stub->Hold(&context, request);
    }
    uint64_t Step() {
      v1::HeldPart part;
      v1::CheckpointManifest manifest;
      if (!reader->Read(&part) || !manifest.ParseFromString(part.manifest())) return 0;
      EXPECT_TRUE(part.last());
      EXPECT_EQ(part.checksum(), Digest(std::as_bytes(std::span(part.manifest()))));
      return manifest.step();
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::HeldPart>> reader;
  };

  // A load of the checkpoint's one item.
  struct Loading {
    explicit Loading(v1::Store::Stub* stub, uint64_t step = 7) {
      Limit(&context);
      v1::LoadRequest request;
      request.set_epoch(1);
      request.set_step(step);
      request.set_item("weights");
      request.set_scope(v1::SCOPE_SHARED);
      reader = stub->Load(&context, request);
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::LoadChunk>> reader;
    v1::LoadChunk chunk;
  };

  // Asks, without waiting, for a checkpoint that does not come.
  grpc::StatusCode Ask() {
    grpc::ClientContext context;
    Limit(&context);
    v1::AwaitRequest request;
    v1::AwaitResponse response;
    request.set_epoch(1);
    request.set_step(8);
    return stub_->Await(&context, request, &response).error_code();
  }

  std::string directory_;
  std::optional<ServedStore> served_;
  std::unique_ptr<v1::Store::Stub> stub_;
};

// One that waits for an hour, until it is cancelled.
struct Patient {
  explicit Patient(v1::Store::Stub* stub) {
    request.set_epoch(1);
    request.set_step(8);
    request.set_timeout_seconds(3600);
    stub->async()->Await(&context, &request, &response, [this](grpc::Status) { over.Notify(); });
  }
  ~Patient() {
    context.TryCancel();
    over.WaitForNotification();
  }
  grpc::ClientContext context;
  v1::AwaitRequest request;
  v1::AwaitResponse response;
  absl::Notification over;
};

TEST_F(StoreServiceTest, SoManyMayWaitAndWhoGoesAwayMakesRoom) {
  {
    std::list<Patient> patients;  // one that came while we asked in its place was sent away
    grpc::StatusCode full = grpc::StatusCode::OK;
    for (int i = 0; i < 1000 && full == grpc::StatusCode::OK; ++i) {
      patients.emplace_back(stub_.get());
      full = Ask();
    }
    EXPECT_EQ(full, grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  grpc::StatusCode room = grpc::StatusCode::RESOURCE_EXHAUSTED;
  for (int i = 0; i < 10'000 && room != grpc::StatusCode::OK; ++i) room = Ask();
  EXPECT_EQ(room, grpc::StatusCode::OK);
}

TEST_F(StoreServiceTest, ALoadThatNobodyReadsHoldsUpTheOthersOnlyUntilItEnds) {
  Loading unread(stub_.get());
  ASSERT_TRUE(unread.reader->Read(&unread.chunk));  // it is inside
  Loading waiting(stub_.get()), forgotten(stub_.get());
  forgotten.context.TryCancel();
  EXPECT_FALSE(forgotten.reader->Finish().ok());
  unread.context.TryCancel();
  int pieces = 0;
  while (waiting.reader->Read(&waiting.chunk)) ++pieces;
  EXPECT_TRUE(waiting.reader->Finish().ok());
  EXPECT_EQ(pieces, kPieces);
}

// Far more checkpoints follow than are kept.
TEST_F(StoreServiceTest, WhatAReaderHoldsStaysUntilItEnds) {
  served_->service().SetEpoch(Alone());
  auto reading = std::make_unique<Reading>(stub_.get(), 0, 0);
  ASSERT_EQ(reading->Step(), 7u);
  for (uint64_t step = 8; step <= 12; ++step) ASSERT_TRUE(Save(step).ok());
  {
    Loading held(stub_.get());
    int pieces = 0;
    while (held.reader->Read(&held.chunk)) ++pieces;
    EXPECT_TRUE(held.reader->Finish().ok());
    EXPECT_EQ(pieces, kPieces);
  }
  reading->context.TryCancel();
  EXPECT_FALSE(reading->reader->Finish().ok());
  reading.reset();
  // After a further checkpoint, once it is let go; perhaps under a load, which is aborted then.
  grpc::StatusCode gone = grpc::StatusCode::OK;
  for (uint64_t step = 13; step < 1000 && gone != grpc::StatusCode::NOT_FOUND; ++step) {
    ASSERT_TRUE(Save(step).ok());
    Loading released(stub_.get());
    while (released.reader->Read(&released.chunk)) {
    }
    gone = released.reader->Finish().error_code();
  }
  EXPECT_EQ(gone, grpc::StatusCode::NOT_FOUND);
}

TEST_F(StoreServiceTest, AReaderWaitsForACheckpointThatIsNewEnough) {
  served_->service().SetEpoch(Alone());
  Reading first(stub_.get(), 1, 9), second(stub_.get(), 1, 9);
  ASSERT_TRUE(Save(8).ok());
  ASSERT_TRUE(Save(10).ok());
  EXPECT_EQ(first.Step(), 10u);
  EXPECT_EQ(second.Step(), 10u);
  Reading none(stub_.get(), 1, 11, 0);
  EXPECT_EQ(none.Step(), 0u);
  const grpc::Status late = none.reader->Finish();
  EXPECT_EQ(late.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_NE(late.error_message().find("no rank has saved since then"), std::string::npos)
      << late.error_message();
  served_->service().Stop();  // answers those who wait, and ends those who read
  EXPECT_EQ(first.Step(), 0u);
  EXPECT_EQ(first.reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// A process before this one ended when the checkpoint was complete.
class LeftUnreadTest : public StoreServiceTest {
 protected:
  LeftUnreadTest() : StoreServiceTest([](const CheckpointId&) {}) {}
};

TEST_F(LeftUnreadTest, AReaderGetsItWhenItWasReadBack) {
  Reading reading(stub_.get(), 0, 0);
  EXPECT_EQ(reading.Step(), 7u);
}

constexpr uint32_t kRanks = 6;  // more than there are threads for the disk

v1::EpochRecord EpochOfRanks() {
  v1::EpochRecord record;
  record.set_epoch(2);
  record.set_job(7);
  record.set_world(kRanks);
  for (uint32_t rank = 0; rank < kRanks; ++rank) record.add_members()->set_incarnation(1 + rank);
  return record;
}

std::string StateOfRank(uint64_t step, uint32_t rank) {
  return std::string(100'000, static_cast<char>('a' + step % 10 + rank));
}

class StoreServiceOfRanks : public StoreServiceTest {
 protected:
  StoreServiceOfRanks() { served_->service().SetEpoch(EpochOfRanks()); }

  // One rank's stripe of three chunks, of which the second may be damaged.
  grpc::Status SaveStripe(uint64_t step, uint32_t rank, bool damaged) {
    constexpr int kChunks = 3;
    grpc::ClientContext context;
    Limit(&context);
    v1::SaveReceipt receipt;
    const auto writer = stub_->Save(&context, &receipt);
    v1::SaveChunk chunk;
    chunk.set_epoch(2);
    chunk.set_step(step);
    chunk.set_rank(rank);
    chunk.set_world(kRanks);
    chunk.set_incarnation(1 + rank);
    chunk.set_item("state");
    chunk.set_scope(v1::SCOPE_OWN);
    chunk.set_data(StateOfRank(step, rank));
    chunk.set_item_bytes(kChunks * chunk.data().size());
    chunk.set_checksum(Digest(std::as_bytes(std::span(chunk.data()))));
    for (int i = 0; i < kChunks; ++i) {
      chunk.set_offset(i * chunk.data().size());
      if (damaged && i == 1) chunk.set_checksum(0);
      chunk.set_last(i == kChunks - 1);
      if (!writer->Write(chunk)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  // All ranks at once; one of them may bring a damaged stripe. Returns what the store says of the
  // checkpoint.
  v1::AwaitResponse SaveAtOnce(uint64_t step, std::optional<uint32_t> damaged = std::nullopt) {
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([this, step, rank, damaged] {
        const grpc::Status saved = SaveStripe(step, rank, rank == damaged);
        EXPECT_TRUE(damaged || saved.ok()) << saved.error_message();
        EXPECT_FALSE(rank == damaged && saved.ok());
      });
    }
    for (std::thread& rank : ranks) rank.join();
    grpc::ClientContext context;
    Limit(&context);
    v1::AwaitRequest request;
    v1::AwaitResponse response;
    request.set_epoch(2);
    request.set_step(step);
    request.set_timeout_seconds(30);
    EXPECT_TRUE(stub_->Await(&context, request, &response).ok());
    return response;
  }
};

TEST_F(StoreServiceOfRanks, StripesOfManyRanksAreTakenAtOnce) {
  EXPECT_TRUE(SaveAtOnce(10).complete());
  const v1::AwaitResponse damaged = SaveAtOnce(20, 2);
  EXPECT_FALSE(damaged.complete());
  EXPECT_NE(damaged.reason().find("of rank 2 at byte 100000 arrived damaged"), std::string::npos)
      << damaged.reason();
  EXPECT_TRUE(SaveAtOnce(30).complete()) << "the next one is taken";
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    grpc::ClientContext context;
    Limit(&context);
    v1::LoadRequest request;
    request.set_epoch(2);
    request.set_step(30);
    request.set_item("state");
    request.set_scope(v1::SCOPE_OWN);
    request.set_rank(rank);
    const auto reader = stub_->Load(&context, request);
    v1::LoadChunk chunk;
    int chunks = 0;
    while (reader->Read(&chunk)) chunks += chunk.data() == StateOfRank(30, rank);
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(chunks, 3) << rank;
  }
}

v1::Memory MemoryAt(const void* place, size_t bytes) {
  v1::Memory memory;
  memory.set_process(static_cast<uint32_t>(getpid()));
  memory.set_address(reinterpret_cast<uint64_t>(place));
  memory.set_bytes(static_cast<uint32_t>(bytes));
  return memory;
}

const volatile uint64_t kNumber = 77;

// Whether the store says that it reads the process that has 77 here.
bool Reads(v1::Store::Stub* stub, uint64_t told, uint32_t process) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(Seconds(60)));
  v1::MeetRequest request;
  request.set_cookie(told);
  *request.mutable_at() = MemoryAt(const_cast<const uint64_t*>(&kNumber), sizeof kNumber);
  request.mutable_at()->set_process(process);
  v1::MeetResponse response;
  EXPECT_TRUE(stub->Meet(&context, request, &response).ok());
  return response.reads();
}

TEST_F(StoreServiceTest, MeetsWhoseMemoryItReads) {
  const auto self = static_cast<uint32_t>(getpid());
  EXPECT_FALSE(Reads(stub_.get(), 78, self)) << "another process";
  EXPECT_FALSE(Reads(stub_.get(), 77, 0));
  EXPECT_FALSE(Reads(stub_.get(), 77, 0xffffffff));
  EXPECT_TRUE(Reads(stub_.get(), 77, self));
}

// Another process may have the number, too: a child here, and a zero is everywhere.
TEST_F(StoreServiceTest, ReadsNobodyButItsCaller) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    for (int descriptor = 0; descriptor < 1024; ++descriptor) {
      if (descriptor != ready[1]) close(descriptor);
    }
    (void)!write(ready[1], "", 1);
    for (;;) pause();
  }
  char byte = 1;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(Reads(stub_.get(), kNumber, static_cast<uint32_t>(child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  for (const int end : ready) close(end);
}

TEST_F(StoreServiceTest, TakesBytesThatAChunkNamesInMemory) {
  served_->service().SetEpoch(Alone());
  const std::string state(kPiece, 'm');
  const auto named = [&](uint64_t step) {
    v1::SaveChunk chunk = Piece(step, 1);
    chunk.set_checksum(Digest(std::as_bytes(std::span(state))));
    chunk.clear_data();
    *chunk.mutable_memory() = MemoryAt(state.data(), state.size());
    return chunk;
  };
  const grpc::Status stranger = Save(named(19));
  EXPECT_NE(stranger.error_message().find("has not asked"), std::string::npos)
      << stranger.error_message();
  ASSERT_TRUE(Reads(stub_.get(), 77, static_cast<uint32_t>(getpid())));
  const grpc::Status saved = Save(named(20));
  EXPECT_TRUE(saved.ok()) << saved.error_message();
  Loading loading(stub_.get(), 20);
  ASSERT_TRUE(loading.reader->Read(&loading.chunk));
  EXPECT_EQ(loading.chunk.data(), state);

  v1::SaveChunk changed = named(21);
  changed.set_checksum(1);
  EXPECT_EQ(Save(changed).error_code(), grpc::StatusCode::DATA_LOSS)
      << "it is checked as any other";
  v1::SaveChunk nowhere = named(22);
  nowhere.mutable_memory()->set_address(8);
  EXPECT_EQ(Save(nowhere).error_code(), grpc::StatusCode::UNAVAILABLE);
  v1::SaveChunk both = named(23);
  both.set_data("bytes");
  EXPECT_EQ(Save(both).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::SaveChunk large = named(24);
  large.mutable_memory()->set_bytes(kPiece + 1);
  EXPECT_EQ(Save(large).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace ringwood
