// When a worker logs its rounds, and when it gives up.
#include "client/updates/update_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"

namespace ringwood {
namespace {

using testing::ElementsAre;

constexpr size_t kHeldElements = 300;

// A store that hangs: what is written to it waits until the round is cancelled.
class StuckUpdateClient : public UpdateClient {
 public:
  class StuckRound : public Round {
   public:
    explicit StuckRound(StuckUpdateClient* client) : client_(client) {}
    void Write(std::span<const std::byte>) override {
      ++client_->writes_;
      client_->writing_.Notify();
      client_->cancelled_.WaitForNotification();
    }
    Status Finish(std::span<const std::byte>) override { return Aborted("cancelled"); }

   private:
    StuckUpdateClient* const client_;
  };

  std::unique_ptr<Round> Begin(const RoundName&, bool, Duration) override {
    return std::make_unique<StuckRound>(this);
  }
  Status Replay(uint64_t, uint64_t, const TakeRound&, Duration) override { return OkStatus(); }
  void CancelRounds() override { cancelled_.Notify(); }
  void Cancel() override {}

  void AwaitWrite() { writing_.WaitForNotification(); }
  int writes() const { return writes_; }

 private:
  absl::Notification writing_, cancelled_;
  std::atomic<int> writes_{0};
};

TEST(UpdateWriter, AnEpochEndsWhileSumsWaitForAStoreThatHangs) {
  std::vector<float> data(kHeldElements, 1);
  Tensor tensor;
  tensor.spec = {"w", kHeldElements, "dense", 1};
  tensor.data = data.data();
  StuckUpdateClient client;
  UpdateWriter writer;
  writer.Enter(&client, {});
  writer.Take([&](size_t) { return TensorSum{std::span<const float>(data)}; }, {&tensor});
  writer.Exchanged(1, {0});
  client.AwaitWrite();
  writer.Exchanged(2, {0});  // waits behind it
  writer.Cancel();
  writer.Enter(nullptr, {});
  EXPECT_FALSE(writer.writes());
  EXPECT_EQ(client.writes(), 1);  // nothing begins in an epoch that is over
}

// Of rounds without tensors: which began the log again, and which reached it.
class ListedUpdateClient : public UpdateClient {
 public:
  struct Listed : Round {
    Listed(ListedUpdateClient* client, uint64_t step) : client_(client), step_(step) {}
    void Write(std::span<const std::byte>) override {}
    Status Finish(std::span<const std::byte>) override {
      if (client_->failure.ok()) client_->logged.push_back(step_);
      return client_->failure;
    }
    ListedUpdateClient* const client_;
    const uint64_t step_;
  };
  std::unique_ptr<Round> Begin(const RoundName& name, bool restart, Duration) override {
    if (restart) begun_again.push_back(name.step);
    return std::make_unique<Listed>(this, name.step);
  }
  Status Replay(uint64_t, uint64_t, const TakeRound&, Duration) override { return OkStatus(); }
  void CancelRounds() override {}
  void Cancel() override {}

  Status failure;
  std::vector<uint64_t> logged, begun_again;
};

// What ends when: before the trainer is told that it began, before the next step, after it.
TEST(UpdateWriter, GoesOnAfterNoCheckpointThatIsGivenUp) {
  ListedUpdateClient client;
  UpdateWriter writer;
  writer.Enter(&client, {});
  writer.Take({}, {});
  const auto log = [&](uint64_t step) {
    RoundFacts facts;
    facts.step = step;
    writer.Log(facts, [] { return true; });
  };
  log(1);
  client.failure = Exhausted("the disk is full");
  log(2);
  client.failure = OkStatus();
  writer.CheckpointEnded(2, false);
  writer.CheckpointBegun(2);
  log(3);
  writer.CheckpointBegun(3);
  writer.CheckpointEnded(3, false);
  log(4);
  EXPECT_THAT(client.logged, ElementsAre(1));
  EXPECT_THAT(client.begun_again, ElementsAre());

  writer.CheckpointBegun(4);
  log(5);
  writer.CheckpointEnded(4, false);
  log(6);
  EXPECT_THAT(client.logged, ElementsAre(1, 5)) << "5 counts for nothing: 6 would not either";
  writer.CheckpointBegun(6);
  log(7);
  writer.CheckpointEnded(6, true);
  log(8);
  writer.CheckpointEnded(8, false);  // not the one that the log went on after
  log(9);
  writer.Enter(&client, {});
  log(10);
  EXPECT_THAT(client.logged, ElementsAre(1, 5, 7, 8, 9, 10));
  EXPECT_THAT(client.begun_again, ElementsAre(5, 7));

  client.failure = Exhausted("the disk is full");
  log(11);
  client.failure = OkStatus();
  writer.CheckpointBegun(11);
  log(12);
  writer.Enter(&client, {});  // under the checkpoint, which may still be completed
  log(13);
  EXPECT_THAT(client.logged, ElementsAre(1, 5, 7, 8, 9, 10, 12, 13));
  writer.CheckpointEnded(11, false);
  log(14);
  writer.CheckpointBegun(14);
  writer.Enter(&client, {});  // the log would begin with a checkpoint of another epoch
  log(15);
  EXPECT_THAT(client.logged, ElementsAre(1, 5, 7, 8, 9, 10, 12, 13));
}

}  // namespace
}  // namespace ringwood
