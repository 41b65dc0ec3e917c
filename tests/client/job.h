// A job in one process: a coordinator that only gathers, a store in memory, ranks that are threads
// over the in-process network. Without a reducer workers merge among themselves: the same result.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/digest.h"
#include "client/session.h"
#include "plan/wire.h"
#include "tests/client/reducer.h"
#include "transport/in_process.h"

namespace ringwood {

// Gathers one request a rank, answers all.
class GatheringCoordinator {
 public:
  GatheringCoordinator(int world, uint64_t base_step, bool has_checkpoint)
      : world_(world), base_step_(base_step), has_checkpoint_(has_checkpoint) {}

  void Use(JobReducer* reducer) { reducer_ = reducer; }  // before anyone joins
  // The same: rounds are logged by `writer`, and so many before the base are replayed.
  void LogUpdates(uint64_t logged_steps, uint32_t writer) {
    logged_steps_ = logged_steps;
    log_writer_ = writer;
  }

  // Announced to all who attend, and the answer to everybody who waits.
  void Fail(const Status& failure);

  // All ranks change to `plan` after `round`, as if rank 0 had asked for it.
  void ChangePlanAfter(uint64_t round, const Plan& plan) {
    absl::MutexLock lock(&mutex_);
    plans_[round] = plan;
  }

  uint64_t reviews() const { return reviews_; }  // in Alone

  // Of a rank that has left: its last report, and what its votes said of its gradients' age.
  v1::MemberReport ReportOf(int rank) {
    absl::MutexLock lock(&mutex_);
    return reports_[rank];
  }
  std::vector<double> AgesInVotesOf(int rank) {
    absl::MutexLock lock(&mutex_);
    std::vector<double> ages;
    for (const auto& [round, votes] : votes_) {
      for (const v1::VoteRequest& vote : votes) {
        const bool says = static_cast<int>(vote.rank()) == rank && vote.has_since_ready_seconds();
        if (says) ages.push_back(vote.since_ready_seconds());
      }
    }
    return ages;
  }

  // Runs `task` while no other rank does.
  void Alone(const std::function<void()>& task) {
    absl::MutexLock lock(&mutex_);
    task();
  }

 private:
  friend class GatheringControl;
  const int world_;
  const uint64_t base_step_;
  const bool has_checkpoint_;
  uint64_t logged_steps_ = 0;
  std::optional<uint32_t> log_writer_;  // nothing: there is no update log

  std::vector<Peer> Peers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<Peer> peers;
    for (const v1::JoinRequest& join : joins_) {
      peers.push_back({static_cast<int>(join.rank()), "a rank", join.fabric_address()});
    }
    if (reducer_ != nullptr) peers.push_back({world_, "the reducer", reducer_->address()});
    return peers;
  }

  // The first plan, once.
  void Serve(const v1::Plan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (reducer_ == nullptr || std::exchange(serving_, true)) return;
    reducer_->Connect(Peers());
    reducer_->Serve(plan, agrees_.front(), base_step_ + 1);
  }

  void Wish(const v1::VoteRequest& first, v1::Commit* commit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    reviews_ += first.review();
    commit->set_review(first.review());
    commit->set_probe(first.probe());
    commit->set_checkpoint(first.checkpoint());
    if (first.has_plan()) *commit->mutable_plan() = first.plan();
    if (const auto plan = plans_.find(commit->round()); plan != plans_.end()) {
      *commit->mutable_plan() = ToProto(plan->second);
    }
    if (!commit->has_plan()) return;
    const bool is_new = changed_.insert(commit->round()).second;
    commit->set_generation(static_cast<uint32_t>(changed_.size()));
    if (is_new && reducer_ != nullptr) {
      reducer_->Serve(commit->plan(), agrees_.front(),
                      WireRound(commit->generation(), commit->round() + 1));
    }
  }

  absl::Mutex mutex_;
  std::map<uint64_t, Plan> plans_;  // by the round that they follow
  uint64_t reviews_ = 0;            // counted once a rank
  std::set<uint64_t> changed_;      // rounds that a change followed
  JobReducer* reducer_ = nullptr;
  bool serving_ = false;
  Status failure_;
  std::vector<v1::JoinRequest> joins_;
  std::vector<v1::AgreeRequest> agrees_;
  std::map<uint64_t, std::vector<v1::VoteRequest>> votes_;
  std::map<int, EpochFailed> attending_;
  std::map<int, v1::MemberReport> reports_;
};

// Under the lock: a rank whose attendance has ended, which waits for it, is told nothing any more.
inline void GatheringCoordinator::Fail(const Status& failure) {
  absl::MutexLock lock(&mutex_);
  failure_ = failure;
  for (auto& [rank, tell] : attending_) tell(failure, false);
}

class GatheringControl : public Control {
 public:
  GatheringControl(GatheringCoordinator* coordinator, int rank)
      : coordinator_(coordinator), rank_(rank) {}
  ~GatheringControl() override { EndAttendance(); }

  StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request, Duration timeout) override {
    absl::MutexLock lock(&coordinator_->mutex_);
    coordinator_->joins_.push_back(request);
    RW_RETURN_IF_ERROR(Gather(&coordinator_->joins_, timeout));
    v1::JoinResponse response;
    response.set_job(1);
    response.set_epoch(1);
    response.set_node(rank_);
    response.set_base_step(coordinator_->base_step_);
    response.set_has_checkpoint(coordinator_->has_checkpoint_);
    response.set_logged_steps(coordinator_->logged_steps_);
    response.set_update_log(coordinator_->log_writer_.has_value());
    response.set_log_writer(coordinator_->log_writer_.value_or(0));
    response.set_failure_timeout_seconds(0.2);
    response.set_heartbeat_seconds(1);
    for (const v1::JoinRequest& join : coordinator_->joins_) {
      v1::Member* member = response.add_members();
      member->set_node(join.rank());
      member->set_role(v1::ROLE_WORKER);
      member->set_rank(join.rank());
      member->set_host(join.host());
      member->set_fabric_address(join.fabric_address());
    }
    if (coordinator_->reducer_ != nullptr) {
      v1::Member* member = response.add_members();
      member->set_node(coordinator_->world_);
      member->set_role(v1::ROLE_REDUCER);
      member->set_fabric_address(coordinator_->reducer_->address());
    }
    return response;
  }

  Status Attend(const Attendance&, Duration, EpochFailed failed) override {
    absl::MutexLock lock(&coordinator_->mutex_);
    coordinator_->attending_[rank_] = std::move(failed);
    return OkStatus();
  }

  void EndAttendance() override {
    absl::MutexLock lock(&coordinator_->mutex_);
    coordinator_->attending_.erase(rank_);
  }

  void Interrupt(const Status& why) override {
    absl::MutexLock lock(&coordinator_->mutex_);
    const auto attending = coordinator_->attending_.find(rank_);
    if (attending != coordinator_->attending_.end()) attending->second(why, false);
  }

  StatusOr<v1::AgreeResponse> Agree(const v1::AgreeRequest& request, Duration timeout) override {
    absl::MutexLock lock(&coordinator_->mutex_);
    coordinator_->agrees_.push_back(request);
    RW_RETURN_IF_ERROR(Gather(&coordinator_->agrees_, timeout));
    v1::AgreeResponse response;
    response.set_from_round(coordinator_->base_step_ + 1);
    for (const v1::AgreeRequest& agree : coordinator_->agrees_) {
      if (agree.has_plan()) *response.mutable_plan() = agree.plan();
    }
    coordinator_->Serve(response.plan());
    return response;
  }

  StatusOr<v1::Commit> Vote(const v1::VoteRequest& request, Duration timeout) override {
    absl::MutexLock lock(&coordinator_->mutex_);
    std::vector<v1::VoteRequest>& votes = coordinator_->votes_[request.round()];
    votes.push_back(request);
    RW_RETURN_IF_ERROR(Gather(&votes, timeout));
    v1::Commit commit;
    commit.set_epoch(request.epoch());
    commit.set_round(request.round());
    double total = 0;
    std::set<uint32_t> contributors;
    for (const v1::VoteRequest& vote : votes) {
      if (vote.weight() > 0) contributors.insert(vote.rank());
      if (vote.digest() != request.digest()) return Internal("the digests differ");
      total += vote.weight();
      if (vote.non_finite()) commit.set_skipped(true);
    }
    commit.set_total_weight(total);
    commit.mutable_contributors()->Assign(contributors.begin(), contributors.end());
    for (const v1::VoteRequest& vote : votes) {
      if (vote.rank() == 0) coordinator_->Wish(vote, &commit);
    }
    return commit;
  }

  Status Leave(const v1::LeaveRequest& request, Duration) override {
    absl::MutexLock lock(&coordinator_->mutex_);
    coordinator_->reports_[rank_] = request.report();
    return OkStatus();
  }

 private:
  template <typename Request>
  Status Gather(std::vector<Request>* requests, Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(coordinator_->mutex_) {
    const auto complete = [&] {
      return static_cast<int>(requests->size()) == coordinator_->world_ ||
             !coordinator_->failure_.ok();
    };
    if (!coordinator_->mutex_.AwaitWithTimeout(absl::Condition(&complete),
                                               absl::FromChrono(timeout))) {
      return TimedOut("not everybody came");
    }
    // What everybody brought stands, even when a failure comes before the last one wakes up.
    const bool all = static_cast<int>(requests->size()) == coordinator_->world_;
    return all ? OkStatus() : coordinator_->failure_;
  }

  GatheringCoordinator* const coordinator_;
  const int rank_;
};

// Whole items by (rank or -1, name); complete as soon as it is asked, or is told how it ends.
class MemoryStore {
 public:
  absl::Mutex mutex;
  absl::Notification* ends = nullptr;  // null: at once
  Status ended;                        // by then
  std::map<std::pair<int, std::string>, std::vector<std::byte>> items;
};

class MemoryStoreClient : public StoreClient {
 public:
  explicit MemoryStoreClient(MemoryStore* store) : store_(store) {}

  Status Save(const StripeName& stripe, const Arena& arena, Duration, const Sent&) override {
    absl::MutexLock lock(&store_->mutex);
    for (size_t i = 0; i < arena.size(); ++i) {
      const Arena::Entry entry = arena.entry(i);
      auto& item = store_->items[{entry.shared ? -1 : static_cast<int>(stripe.rank), *entry.name}];
      item.resize(entry.item_bytes);
      std::copy(entry.data.begin(), entry.data.end(), item.begin() + entry.offset);
    }
    return OkStatus();
  }
  Status Await(const CheckpointName&, Duration) override {
    if (store_->ends != nullptr) store_->ends->WaitForNotification();
    return store_->ended;
  }
  StatusOr<std::vector<CheckpointItem>> Items(const CheckpointName&, uint32_t rank) override {
    absl::MutexLock lock(&store_->mutex);
    std::vector<CheckpointItem> items;
    for (const auto& [name, bytes] : store_->items) {
      const bool shared = name.first < 0;
      if (!shared && name.first != static_cast<int>(rank)) continue;
      items.push_back({name.second, shared, bytes.size()});
    }
    return items;
  }
  Status Load(const CheckpointName&, uint32_t rank, const std::string& name, bool shared,
              std::span<std::byte> out) override {
    absl::MutexLock lock(&store_->mutex);
    const auto& item = store_->items.at({shared ? -1 : static_cast<int>(rank), name});
    std::copy(item.begin(), item.end(), out.begin());
    return OkStatus();
  }
  void Cancel() override {}

 private:
  MemoryStore* const store_;
};

struct Job {
  int world = 2;
  double momentum = 0;
  uint64_t base_step = 0;
  bool has_checkpoint = false;
  MemoryStore* store = nullptr;  // where the test keeps one
  std::function<std::unique_ptr<Observer>(int rank)> observer = nullptr;
  std::string wire = "fp32";
  std::function<void(SessionOptions*)> options = nullptr;  // what else they are
  std::function<Accelerator(int rank)> accelerator = nullptr;
  bool reducer = false;  // one beside the ranks
  // With an update log: how a rank gets at it, and the last rounds before base_step that it has.
  std::function<std::unique_ptr<UpdateClient>()> updates = nullptr;
  uint64_t logged_steps = 0;
  uint32_t log_writer = 0;
};

using RankWithSession = std::function<void(std::unique_ptr<Session>, GatheringCoordinator&)>;

// Runs `rank` with an open session of its own in a thread for each rank and waits for all.
inline void RunOwningJob(const Job& job, const RankWithSession& rank) {
  InProcessNetwork network;
  GatheringCoordinator coordinator(job.world, job.base_step, job.has_checkpoint);
  std::optional<JobReducer> reducer;
  if (job.updates) coordinator.LogUpdates(job.logged_steps, job.log_writer);
  if (job.reducer) coordinator.Use(&reducer.emplace(&network, job.world));
  MemoryStore own;
  std::vector<std::thread> threads;
  for (int r = 0; r < job.world; ++r) {
    threads.emplace_back([&, r] {
      SessionOptions options;
      options.coordinator = "127.0.0.1:1";
      options.rank = r;
      options.world = job.world;
      options.momentum = job.momentum;
      options.wire = job.wire;
      options.log_level = "warning";
      if (job.options) job.options(&options);
      Parts parts;
      parts.make_fabric = [&](Loop* net) -> StatusOr<std::unique_ptr<Fabric>> {
        return network.MakeFabric(net);
      };
      parts.control = std::make_unique<GatheringControl>(&coordinator, r);
      parts.store = std::make_unique<MemoryStoreClient>(job.store ? job.store : &own);
      if (job.updates) parts.updates = job.updates();
      if (job.accelerator) parts.accelerator = job.accelerator(r);
      if (job.observer) parts.observers.push_back(job.observer(r));
      auto session = Session::Open(options, std::move(parts));
      ASSERT_TRUE(session.ok()) << session.status();
      rank(*std::move(session), coordinator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The same for a rank that only borrows its session.
inline void RunJob(const Job& job,
                   const std::function<void(Session&, GatheringCoordinator&)>& rank) {
  RunOwningJob(job, [&](std::unique_ptr<Session> session, GatheringCoordinator& coordinator) {
    rank(*session, coordinator);
  });
}

// A gradient and its registration. Its memory lives as long as the rank's thread, and so beyond the
// session: after a failed step an exchange may still read it.
struct Gradient {
  ~Gradient() { outlived.push_back(std::move(data)); }
  Gradient(const Gradient&) = delete;
  Gradient& operator=(const Gradient&) = delete;
  Gradient(Session& session, const std::string& name, size_t elements, const std::string& route,
           double density = 0.1, std::optional<double> momentum = std::nullopt)
      : data(elements, 0.0f) {
    Tensor tensor;
    tensor.spec = {name, elements, route, density};
    tensor.momentum = momentum;
    tensor.data = data.data();
    const StatusOr<int> registered = session.Register(tensor);
    EXPECT_TRUE(registered.ok()) << registered.status();
    id = registered.value_or(-1);
  }
  std::vector<float> data;
  int id = -1;
  static inline thread_local std::vector<std::vector<float>> outlived;
};

// A bfloat16 gradient, likewise.
struct NarrowGradient {
  NarrowGradient(Session& session, const std::string& name, size_t elements)
      : data(std::make_shared<std::vector<uint16_t>>(elements)) {
    Tensor tensor;
    tensor.spec = {name, elements};
    tensor.data = data->data();
    tensor.type = DataType::kBFloat16;
    const StatusOr<int> registered = session.Register(tensor);
    EXPECT_TRUE(registered.ok()) << registered.status();
    id = registered.value_or(-1);
    outlived.push_back(data);
  }
  std::shared_ptr<std::vector<uint16_t>> data;
  int id = -1;
  static inline thread_local std::vector<std::shared_ptr<std::vector<uint16_t>>> outlived;
};

}  // namespace ringwood
