// A coordinator that is killed and started again while its ranks save: the checkpoint is complete
// when it is back.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "client/grpc/parts.h"
#include "client/grpc/store_client.h"
#include "client/session.h"
#include "proto/await_reason.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "tests/cli/restarted_coordinator.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 2;

// Two ranks of a job, that have taken a step.
class SavingRanks {
 public:
  using Act = std::function<void(Session*)>;

  SavingRanks(const std::string& address, double grace, double rate_mb, const Act& act) {
    for (int rank = 0; rank < kRanks; ++rank) {
      threads_.emplace_back([=, this] { Run(address, rank, grace, rate_mb, act); });
    }
  }
  ~SavingRanks() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  static void Run(const std::string& address, int rank, double grace, double rate_mb,
                  const Act& act) {
    SessionOptions options;
    options.coordinator = address;
    options.rank = rank;
    options.world = kRanks;
    options.coordinator_grace_seconds = grace;
    options.checkpoint_rate_mb = rate_mb;
    options.log_level = "error";
    auto parts = MakeParts(options);
    ASSERT_TRUE(parts.ok()) << parts.status();
    auto session = Session::Open(options, *std::move(parts));
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<float> gradient(1000, 1);
    Tensor tensor;
    tensor.spec = {"w", gradient.size(), "sparse", 0.01};
    tensor.data = gradient.data();
    ASSERT_TRUE((*session)->Register(tensor).ok());
    ASSERT_TRUE((*session)->Ready(0).ok());
    const auto step = (*session)->FinishStep();
    ASSERT_TRUE(step.ok()) << step.status();
    act(session->get());
    (void)(*session)->Close("");
  }

  std::vector<std::thread> threads_;
};

// Each rank's weights, in several pieces.
const std::vector<std::byte> kWeights(2 * kRanks * kPieceBytes);
Status Save(Session* session) {
  return session->Checkpoint({{"weights", true, std::span(kWeights)}});
}

TEST(InterruptedSave, OneThatBeginsWithoutACoordinatorWaitsForIt) {
  RestartedCoordinator coordinator({"--servers", "0"});
  absl::BlockingCounter stepped(kRanks), begun(kRanks);
  absl::Notification killed;
  const SavingRanks ranks(coordinator.address(), 60, 0, [&](Session* session) {
    stepped.DecrementCount();
    killed.WaitForNotification();
    EXPECT_TRUE(Save(session).ok());
    begun.DecrementCount();
    const Status ended = session->CheckpointWait();
    EXPECT_TRUE(ended.ok()) << ended;
  });
  stepped.Wait();
  coordinator.Kill();
  killed.Notify();
  begun.Wait();
  coordinator.Start();
}

// When each rank has sent a piece. The checkpoint has to be complete all the same.
void RestartUnderASave(RestartedCoordinator* coordinator) {
  absl::BlockingCounter saving(kRanks);
  const SavingRanks ranks(coordinator->address(), 60, 4, [&](Session* session) {
    EXPECT_TRUE(Save(session).ok());
    while (session->checkpoint_progress().sent == 0) std::this_thread::yield();
    saving.DecrementCount();
    const Status ended = session->CheckpointWait();
    EXPECT_TRUE(ended.ok()) << ended;
  });
  saving.Wait();
  coordinator->Kill();
  coordinator->Start();
}

TEST(InterruptedSave, OneThatIsUnderWayIsBroughtAgain) {
  RestartedCoordinator coordinator({"--servers", "0"});
  RestartUnderASave(&coordinator);
}

TEST(InterruptedSave, AStripeThatTheStoreHadIsBroughtAgain) {
  RestartedCoordinator coordinator({"--servers", "0"});
  absl::Notification saved, back;
  const SavingRanks ranks(coordinator.address(), 60, 0, [&](Session* session) {
    if (session->rank() == 1) back.WaitForNotification();
    EXPECT_TRUE(Save(session).ok());
    if (session->rank() == 0) {
      while (session->checkpoint_progress().sent < kWeights.size() / kRanks) {
        std::this_thread::yield();
      }
      saved.Notify();
    }
    const Status ended = session->CheckpointWait();
    EXPECT_TRUE(ended.ok()) << ended;
  });
  saved.WaitForNotification();
  coordinator.Kill();
  coordinator.Start();
  back.Notify();
}

// The stripe of rank 1 goes to another server, which lives on: its part is of no use without that
// of the coordinator's store, and is made again with it.
TEST(InterruptedSave, OneOfADividedStoreIsBroughtAgainToBoth) {
  RestartedCoordinator coordinator({"--servers", "1", "--no-reducer"});
  const TemporaryDirectory further_store;
  Program further({"server", "--insecure", "--coordinator", coordinator.address(), "--servers", "1",
                   "--coordinator-grace", "60", "--store", further_store.path() + "/store"});
  RestartUnderASave(&coordinator);
}

// A store at an address of its own, which answers as it is told.
class ScriptedStore final : public v1::Store::Service {
 public:
  using Keeps = std::function<grpc::Status()>;
  using IsWhole = std::function<bool()>;  // whether the checkpoint is complete

  ScriptedStore(Keeps keeps, IsWhole is_whole)
      : keeps_(std::move(keeps)), is_whole_(std::move(is_whole)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return absl::StrFormat("127.0.0.1:%d", port_); }

  grpc::Status Save(grpc::ServerContext*, grpc::ServerReader<v1::SaveChunk>* reader,
                    v1::SaveReceipt*) override {
    v1::SaveChunk chunk;
    while (reader->Read(&chunk)) {
    }
    return keeps_();
  }
  grpc::Status Await(grpc::ServerContext*, const v1::AwaitRequest*,
                     v1::AwaitResponse* response) override {
    response->set_complete(is_whole_());
    if (!response->complete()) response->set_reason(kStripesMissing);
    return grpc::Status::OK;
  }

 private:
  const Keeps keeps_;
  const IsWhole is_whole_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// The further store notices first that the main one is lost, which the rank's own watch may tell it
// later.
TEST(InterruptedSave, WhatAFurtherStoreGivesUpIsTheMainStoresToEnd) {
  std::atomic<int> saves = 0;
  const ScriptedStore further(
      [&] {
        return ++saves > 1 ? grpc::Status::OK
                           : grpc::Status(grpc::StatusCode::ABORTED, "this checkpoint is over");
      },
      [] { return false; });
  const ScriptedStore main([] { return grpc::Status::OK; }, [&] { return saves > 1; });
  const auto client = MakeGrpcStoreClient(main.address(), {}, false);
  Arena arena(1 << 20);
  const std::vector<std::byte> weights(1000);
  ASSERT_TRUE(arena.Fill({{"weights", true, std::span(weights)}}, 0, 1).ok());
  arena.Complete();
  StripeName stripe{.epoch = 1, .step = 4, .rank = 1, .world = 2, .store = further.address()};
  const auto keep = [&] {
    saves = 0;
    return client->Keep(stripe, arena, Seconds(20), Seconds(20), [](uint64_t) {});
  };
  EXPECT_EQ(keep().code(), StatusCode::kAborted);
  stripe.grace = Seconds(20);
  const Status kept = keep();
  EXPECT_TRUE(kept.ok()) << kept;
  EXPECT_EQ(saves, 2);
}

TEST(InterruptedSave, OneForWhichNoCoordinatorComesBackEndsWithTheGrace) {
  RestartedCoordinator coordinator({"--servers", "0", "--failure-timeout", "1"});
  absl::BlockingCounter stepped(kRanks);
  absl::Notification killed;
  const SavingRanks ranks(coordinator.address(), 0.3, 0, [&](Session* session) {
    stepped.DecrementCount();
    killed.WaitForNotification();
    (void)Save(session);
    EXPECT_THAT(Message(session->CheckpointWait()), HasSubstr("was not started again"));
  });
  stepped.Wait();
  coordinator.Kill();
  killed.Notify();
}

}  // namespace
}  // namespace ringwood
