// One process, one epoch after the other: what lives as long as the process stays, what lives as
// long as an epoch is destroyed and made again.
#include "client/connection/epoch_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/plan_in_force.h"
#include "client/updates/update_writer.h"
#include "tests/client/job.h"
#include "timeline/observers.h"

namespace ringwood {
namespace {

constexpr int kWorld = 2;
constexpr int kEpochs = 3;

// Epoch e of all ranks is coordinated by `coordinators[e - 1]`.
class EpochsControl : public Control {
 public:
  EpochsControl(std::vector<std::unique_ptr<GatheringCoordinator>>* coordinators, int rank)
      : coordinators_(coordinators), rank_(rank) {}

  StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request, Duration timeout) override {
    now_ = std::make_unique<GatheringControl>(coordinators_->at(epoch_++).get(), rank_);
    RW_ASSIGN_OR_RETURN(v1::JoinResponse response, now_->Join(request, timeout));
    response.set_epoch(epoch_);
    return response;
  }
  Status Attend(const Attendance& attendance, Duration timeout, EpochFailed failed) override {
    return now_->Attend(attendance, timeout, std::move(failed));
  }
  void EndAttendance() override { now_->EndAttendance(); }
  void Interrupt(const Status& why) override { now_->Interrupt(why); }
  StatusOr<v1::AgreeResponse> Agree(const v1::AgreeRequest& request, Duration timeout) override {
    return now_->Agree(request, timeout);
  }
  StatusOr<v1::Commit> Vote(const v1::VoteRequest& request, Duration timeout) override {
    return now_->Vote(request, timeout);
  }
  Status Leave(const v1::LeaveRequest& request, Duration timeout) override {
    return now_->Leave(request, timeout);
  }

 private:
  std::vector<std::unique_ptr<GatheringCoordinator>>* const coordinators_;
  const int rank_;
  size_t epoch_ = 0;
  std::unique_ptr<GatheringControl> now_;
};

class Epochs : public ::testing::Test {
 protected:
  Epochs() {
    for (int e = 0; e < kEpochs; ++e) {
      coordinators_.push_back(std::make_unique<GatheringCoordinator>(kWorld, 0, false));
    }
  }

  // `rank` runs on a thread for each, with a connection of its own.
  void OnEveryRank(const std::function<void(const SessionOptions&, Connection*)>& rank) {
    std::vector<std::thread> threads;
    for (int r = 0; r < kWorld; ++r) {
      threads.emplace_back([this, r, &rank] {
        SessionOptions options;
        options.coordinator = "127.0.0.1:1";
        options.rank = r;
        options.world = kWorld;
        Parts parts;
        parts.make_fabric = [this](Loop* net) -> StatusOr<std::unique_ptr<Fabric>> {
          return network_.MakeFabric(net);
        };
        parts.control = std::make_unique<EpochsControl>(&coordinators_, r);
        parts.store = std::make_unique<MemoryStoreClient>(&store_);
        Connection connection(std::move(parts));
        rank(options, &connection);
        together_.arrive_and_drop();  // who gave up holds up nobody
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // The epoch ends on all ranks; rank 0 says so.
  void EndEpoch(int epoch, EpochLink* link) {
    together_.arrive_and_wait();
    if (link->place().rank == 0) coordinators_[epoch]->Fail(Unavailable("rank 7 died"));
    together_.arrive_and_wait();
  }

  InProcessNetwork network_;
  MemoryStore store_;
  std::vector<std::unique_ptr<GatheringCoordinator>> coordinators_;
  std::barrier<> together_{kWorld};
};

TEST_F(Epochs, AnotherLinkIsMadeOfTheSameConnectionAfterAFailure) {
  OnEveryRank([this](const SessionOptions& options, Connection* connection) {
    const uint64_t incarnation = connection->incarnation();
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      auto link = EpochLink::Join(connection, options);
      ASSERT_TRUE(link.ok()) << link.status();
      EXPECT_EQ((*link)->epoch(), static_cast<uint64_t>(epoch + 1));
      int32_t sum = options.rank + 1;
      const auto bytes = std::as_writable_bytes(std::span(&sum, 1));
      Collectives* const collectives = (*link)->collectives();
      EXPECT_TRUE(collectives->AllReduce(bytes, DataType::kInt32, ReduceOp::kSum).ok());
      EXPECT_EQ(sum, 3);
      EndEpoch(epoch, link->get());
      EXPECT_EQ(Message((*link)->status()), "rank 7 died");
      EXPECT_FALSE(collectives->AllReduce(bytes, DataType::kInt32, ReduceOp::kSum).ok());
    }
    EXPECT_EQ(connection->incarnation(), incarnation);
  });
}

// Whoever drains the loops after a failure takes its memory back: nothing may write to it any more.
TEST_F(Epochs, AFailureClosesTheDataPlaneThoughTheMailboxIsFull) {
  OnEveryRank([this](const SessionOptions& options, Connection* connection) {
    auto link = EpochLink::Join(connection, options);
    ASSERT_TRUE(link.ok()) << link.status();
    std::byte into{};
    Status answer = OkStatus();
    const auto receive = [&] {
      (*link)->transport()->Receive(
          1 - options.rank, {Lane::kImmediate, 1}, {}, std::span(&into, 1),
          [&](const StatusOr<std::span<std::byte>>& got, const Frame&) { answer = got.status(); });
      return OkStatus();
    };
    ASSERT_TRUE(connection->net()->Call(receive, Seconds(60)).ok());
    absl::Notification filled;
    ASSERT_TRUE(connection->net()->Post([&] { filled.WaitForNotification(); }));
    while (connection->net()->Post([] {})) {
    }
    (*link)->Fail(Aborted("the mailbox is full"));
    together_.arrive_and_wait();  // no rank hears of the other's end before its own
    filled.Notify();
    connection->Drain();
    EXPECT_THAT(Message(answer), ::testing::HasSubstr("the mailbox is full"));
  });
}

Plan SparseAndDense(const TensorTable& table) {
  Plan plan;
  plan.planner = "test";
  plan.groups.resize(2);
  plan.groups[0].route = "ring";
  plan.groups[0].tensors = {table.IndexOf(1).value};
  plan.groups[1].route = "tree";
  plan.groups[1].tensors = {table.IndexOf(0).value};
  plan.groups[1].density = 0.25;
  plan.groups[1].codec = "block16/fp32";
  plan.groups[1].k = EntriesOf(0.25, table[0].spec.elements);
  return plan;
}

// A round is applied in every epoch, and one more begins and dies with it. Integers: sums are
// exact.
TEST_F(Epochs, APlanGoesOnOverAnotherLinkAndLosesNothing) {
  std::vector<double> owed(kWorld), given(kWorld), applied(kWorld);
  OnEveryRank([&](const SessionOptions& options, Connection* connection) {
    TensorTable table(options);
    TensorStates states(options, table);
    Observers observers;
    UpdateWriter updates;  // writes nothing
    PlanInForce plan(&table, &states, &updates, &observers);
    std::vector<float> sparse(16), dense(16);
    for (const auto& [name, data] : {std::pair("sparse", &sparse), std::pair("dense", &dense)}) {
      Tensor tensor;
      tensor.spec = {name, data->size(), name, 0.25};
      tensor.data = data->data();
      ASSERT_TRUE(plan.Register(tensor).ok());
    }
    ASSERT_TRUE(states.Begin(nullptr, 0, 1).ok());
    const auto make = [&](int epoch) {
      for (size_t i = 0; i < sparse.size(); ++i) {
        sparse[i] = static_cast<float>((5 * i + 3 * epoch + options.rank) % 7);
        dense[i] = 1;
      }
    };
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      auto link = EpochLink::Join(connection, options);
      ASSERT_TRUE(link.ok()) << link.status();
      make(epoch);
      ASSERT_TRUE(plan.Ready(0).ok());  // before the plan: it waits for the pipeline
      const Status installed =
          plan.Install(SparseAndDense(table), 0, 2 * epoch + 1, 1, link->get());
      ASSERT_TRUE(installed.ok()) << installed;
      ASSERT_TRUE(plan.Start().ok());
      ASSERT_TRUE(plan.Ready(1).ok());
      Status done = plan.pipeline()->Wait(Seconds(60));
      ASSERT_TRUE(done.ok()) << done;
      given[options.rank] += std::accumulate(sparse.begin(), sparse.end(), 0.0);
      plan.pipeline()->Apply(kWorld);
      states.Committed(2 * epoch + 1);
      applied[options.rank] += std::accumulate(sparse.begin(), sparse.end(), 0.0);
      EXPECT_THAT(dense, ::testing::Each(1.0f));
      plan.pipeline()->Begin(2 * epoch + 2);
      ASSERT_TRUE(plan.Ready(0).ok());
      EndEpoch(epoch, link->get());
      plan.Fail((*link)->status());
      connection->Drain();
      plan.pipeline()->Abort();
      const Status detached = plan.Detach();
      ASSERT_TRUE(detached.ok()) << detached;
      link->reset();
      std::vector<float> residual(sparse.size());
      ASSERT_TRUE(states.ReadResidual(0, residual).ok());
      owed[options.rank] = std::accumulate(residual.begin(), residual.end(), 0.0);
    }
  });
  EXPECT_GT(owed[0], 0);
  EXPECT_EQ(applied[0], applied[1]);
  // Applied are averages of weight kWorld.
  EXPECT_EQ(given[0] + given[1], kWorld * applied[0] + owed[0] + owed[1]);
}

}  // namespace
}  // namespace ringwood
