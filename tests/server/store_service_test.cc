// The store's calls have a bound, and callers that go away leave.
#include "server/store/store_service.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <list>

#include "absl/synchronization/notification.h"
#include "base/digest.h"
#include "proto/call.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "server/store/stripe_collector.h"

namespace ringwood {
namespace {

constexpr size_t kPiece = 1 << 20;
constexpr int kPieces = 8;  // far more than a stream takes that nobody reads

class StoreServiceTest : public testing::Test {
 protected:
  StoreServiceTest() {
    std::string pattern = testing::TempDir() + "/ringwood-service-XXXXXX";
    directory_ = mkdtemp(pattern.data());
    SaveOne();
    StoreService::Options options;
    options.directory = directory_;
    options.max_waiters = 3;
    options.max_loads = 1;
    auto service = StoreService::Create(options);
    EXPECT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_->service());
    server_ = builder.BuildAndStart();
    stub_ = v1::Store::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                   grpc::InsecureChannelCredentials()));
  }
  ~StoreServiceTest() override {
    service_->Stop();
    server_->Shutdown(DeadlineIn(Seconds(10)));
    std::filesystem::remove_all(directory_);
  }

  void SaveOne() {
    auto store = CheckpointStore::Open(directory_);
    ASSERT_TRUE(store.ok()) << store.status();
    StripeCollector collector(store->get(), [] { return int64_t{1}; });
    v1::EpochRecord record;
    record.set_epoch(1);
    record.set_world(1);
    record.add_members();
    collector.SetEpoch(record);
    v1::SaveChunk chunk;
    chunk.set_epoch(1);
    chunk.set_step(7);
    chunk.set_world(1);
    chunk.set_item("weights");
    chunk.set_scope(v1::SCOPE_SHARED);
    chunk.set_item_bytes(kPieces * kPiece);
    chunk.set_data(std::string(kPiece, 'w'));
    chunk.set_checksum(Digest(std::as_bytes(std::span(chunk.data()))));
    auto incoming = collector.Begin(chunk);
    ASSERT_TRUE(incoming.ok()) << incoming.status();
    for (int piece = 0; piece < kPieces; ++piece) {
      chunk.set_offset(piece * kPiece);
      ASSERT_TRUE((*incoming)->Add(chunk).ok());
    }
    ASSERT_TRUE((*incoming)->Finish().ok());
  }

  static void Limit(grpc::ClientContext* context) {
    context->set_deadline(DeadlineIn(Seconds(60)));
  }

  // A load of the checkpoint's one item.
  struct Loading {
    explicit Loading(v1::Store::Stub* stub) {
      Limit(&context);
      v1::LoadRequest request;
      request.set_epoch(1);
      request.set_step(7);
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
  std::unique_ptr<StoreService> service_;
  std::unique_ptr<grpc::Server> server_;
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

}  // namespace
}  // namespace ringwood
