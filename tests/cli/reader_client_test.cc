// A reader of a job that its deployment is opening, or whose server is lost and comes back: it asks
// again within its time.
#include "client/grpc/reader_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/digest.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "tests/server/peers/fake_coordinator.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

const std::string kItem = "abcdef";
const grpc::Status kOpening(grpc::StatusCode::UNAVAILABLE, "the job mnist is opening: ask again");

// Is opening the job for so many calls.
class Deployment {
 public:
  explicit Deployment(int opening, int port = 0) : control_(opening), store_(opening) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&control_);
    builder.RegisterService(&store_);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);  // readers ping it
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void FailRanks(int calls) { control_.failed = calls; }
  void BreakLoads(int calls) { store_.broken = calls; }
  void RemoveCheckpoint() { store_.removed = true; }

 private:
  struct Control final : v1::Coordinator::Service {
    explicit Control(int opening) : left(opening) {}
    std::atomic<int> failed{0};  // for so many calls
    grpc::Status Pull(grpc::ServerContext*, const v1::PullRequest*,
                      v1::PullResponse* response) override {
      if (left-- > 0) return kOpening;
      if (failed-- > 0)
        return {grpc::StatusCode::NOT_FOUND, "no job runs here, the last one failed"};
      response->set_step(30);
      return grpc::Status::OK;
    }
    std::atomic<int> left;
  };
  struct Parts final : v1::Store::Service {
    explicit Parts(int opening) : left(opening) {}
    std::atomic<int> broken{0};  // so many loads, in the middle
    std::atomic<bool> removed{false};
    grpc::Status Load(grpc::ServerContext*, const v1::LoadRequest*,
                      grpc::ServerWriter<v1::LoadChunk>* writer) override {
      const bool breaks = broken-- > 0;
      for (const uint64_t at : {0, 3}) {
        v1::LoadChunk chunk;
        chunk.set_offset(at);
        chunk.set_item_bytes(kItem.size());
        chunk.set_data(kItem.substr(at, 3));
        chunk.set_checksum(Digest(std::as_bytes(std::span(chunk.data()))));
        writer->Write(chunk);
        if (breaks) return {grpc::StatusCode::UNAVAILABLE, "the store is stopping"};
      }
      return grpc::Status::OK;
    }
    grpc::Status Hold(grpc::ServerContext*, const v1::HoldRequest* wish,
                      grpc::ServerWriter<v1::HeldPart>* writer) override {
      if (left-- > 0) return kOpening;
      const bool is_ours = wish->step() == 30 && wish->job() == 7;
      if (wish->exactly() && (removed || !is_ours)) {
        return {grpc::StatusCode::ABORTED, "the checkpoint was removed"};
      }
      v1::CheckpointManifest manifest;
      manifest.set_job(7);
      manifest.set_step(30);
      v1::HeldPart part;
      part.set_manifest(manifest.SerializeAsString());
      part.set_checksum(Digest(std::as_bytes(std::span(part.manifest()))));
      part.set_last(true);
      writer->Write(part);
      return grpc::Status::OK;
    }
    std::atomic<int> left;
  };

  int port_ = 0;
  Control control_;
  Parts store_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(ReaderClient, AsksAgainWhileTheJobIsOpened) {
  const Deployment deployment(2);
  const auto client = MakeGrpcReaderClient({deployment.address(), Access(), ""});
  v1::PullRequest pull;
  pull.set_timeout_seconds(60);
  const auto due = client->Pull(pull);
  ASSERT_TRUE(due.ok()) << due.status();
  EXPECT_EQ(due->step(), 30u);
  v1::HoldRequest hold;
  hold.set_timeout_seconds(60);
  const auto held = client->Hold(hold);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->step(), 30u);
}

v1::PullRequest PullWithin(double seconds) {
  v1::PullRequest pull;
  pull.set_timeout_seconds(seconds);
  return pull;
}

v1::HoldRequest HoldWithin(double seconds) {
  v1::HoldRequest hold;
  hold.set_timeout_seconds(seconds);
  return hold;
}

TEST(ReaderClient, FollowsAServerThatComesBackElsewhere) {
  const Deployment second(0);
  for (const bool pulls : {true, false}) {
    int looked = 0;  // the third look finds it
    const auto client =
        MakeGrpcReaderClient({"127.0.0.1:1", Access(), ""}, [&]() -> std::optional<ServerPlace> {
          if (++looked != 3) return std::nullopt;
          return ServerPlace{second.address(), Access(), ""};
        });
    if (pulls) {
      const auto due = client->Pull(PullWithin(60));
      ASSERT_TRUE(due.ok()) << due.status();
    }
    const auto held = client->Hold(HoldWithin(60));
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(held->step(), 30u);
    EXPECT_GE(looked, 3);
  }
}

// Another one at that port, a moment later.
class StartedAgain {
 public:
  explicit StartedAgain(int port)
      : starts_([this, port] {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          server_ = std::make_unique<Deployment>(0, port);
        }) {}
  ~StartedAgain() { starts_.join(); }

 private:
  std::unique_ptr<Deployment> server_;
  std::thread starts_;
};

TEST(ReaderClient, WaitsForAServerThatItHasBeenConnectedTo) {
  const int port = PortForRestarts();
  auto first = std::make_unique<Deployment>(0, port);
  const auto client = MakeGrpcReaderClient({first->address(), Access(), ""});
  ASSERT_TRUE(client->Pull(PullWithin(60)).ok());
  first.reset();
  StartedAgain again(port);
  const auto due = client->Pull(PullWithin(60));
  EXPECT_TRUE(due.ok()) << due.status();
}

TEST(ReaderClient, WaitsForRanksThatFailedUnderItsCheckpoint) {
  Deployment deployment(0);
  const auto client = MakeGrpcReaderClient({deployment.address(), Access(), ""});
  deployment.FailRanks(1);
  EXPECT_EQ(client->Pull(PullWithin(60)).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(client->Pull(PullWithin(60)).ok());
  deployment.FailRanks(2);
  EXPECT_TRUE(client->Pull(PullWithin(60)).ok());
}

TEST(ReaderClient, ACheckpointOfALostServerIsNotWaitedFor) {
  const auto client = MakeGrpcReaderClient({"127.0.0.1:1", Access(), ""},
                                           [] { return std::optional<ServerPlace>(); });
  v1::HoldRequest hold = HoldWithin(3000);
  hold.set_step(30);
  EXPECT_EQ(client->Hold(hold).status().code(), StatusCode::kUnavailable);
}

// Reads the item; what it got.
StatusOr<std::string> Read(ReaderClient* client) {
  v1::LoadRequest load;
  load.set_step(30);
  load.set_item("w");
  std::string got;
  RW_RETURN_IF_ERROR(client->Load(load, kItem.size(), [&](std::span<const std::byte> bytes) {
    got.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return OkStatus();
  }));
  return got;
}

TEST(ReaderClient, ReadsOnWhereItsServerIsLostUnderTheRead) {
  Deployment deployment(0);
  const auto client = MakeGrpcReaderClient({deployment.address(), Access(), ""});
  ASSERT_TRUE(client->Hold(HoldWithin(60)).ok());
  deployment.BreakLoads(2);
  EXPECT_EQ(Read(client.get()).value(), kItem);
  deployment.RemoveCheckpoint();
  deployment.BreakLoads(1);
  const Status gone = Read(client.get()).status();
  EXPECT_EQ(gone.code(), StatusCode::kAborted) << gone;
  EXPECT_THAT(Message(gone), HasSubstr("the store is stopping: the checkpoint was removed"));
}

TEST(ReaderClient, ReadsOnAtTheServerThatIsStartedAgain) {
  const int port = PortForRestarts();
  auto first = std::make_unique<Deployment>(0, port);
  const auto client = MakeGrpcReaderClient({first->address(), Access(), ""});
  ASSERT_TRUE(client->Hold(HoldWithin(60)).ok());
  first.reset();
  StartedAgain again(port);
  const auto got = Read(client.get());
  EXPECT_EQ(got.value(), kItem);
}

TEST(ReaderClient, AReadThatCannotGoOnEndsWithItsTime) {
  Deployment deployment(0);
  const auto client = MakeGrpcReaderClient({deployment.address(), Access(), ""});
  ASSERT_TRUE(client->Hold(HoldWithin(0.5)).ok());
  deployment.BreakLoads(1 << 30);
  EXPECT_EQ(Read(client.get()).status().code(), StatusCode::kDeadlineExceeded);
}

TEST(ReaderClient, GivesUpWhenItsTimeIsOver) {
  const Deployment deployment(1 << 30);
  const auto client = MakeGrpcReaderClient({deployment.address(), Access(), ""});
  v1::PullRequest pull;
  pull.set_timeout_seconds(0.3);
  EXPECT_THAT(Message(client->Pull(pull).status()), HasSubstr("ask again"));
  v1::HoldRequest hold;
  hold.set_timeout_seconds(0.3);
  EXPECT_THAT(Message(client->Hold(hold).status()), HasSubstr("ask again"));
}

}  // namespace
}  // namespace ringwood
