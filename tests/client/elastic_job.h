// An elastic job in one process: a coordinator that opens one epoch after the other for those that
// are there, ranks that are threads over the in-process network. A rank dies when its session is
// destroyed, or where the script says so.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "client/session.h"
#include "tests/client/job.h"

namespace ringwood {

enum class Moment {
  kNever,
  kPrepared,    // in its vote, which is never given; all others have given theirs
  kVoted,       // its vote is the last one, and nobody hears of the commit
  kAnswerLost,  // the round is committed; slot 0 hears of it, nobody else
  kCommitted,   // all hear of the commit, and it dies before they go on
};

// What happens to the job.
struct Script {
  int doomed = -1;  // the slot that dies
  uint64_t round = 0;
  Moment moment = Moment::kNever;
  std::set<uint64_t> regroup_after = {};  // rounds whose commit ends the epoch
  bool restart = false;  // the slot that died comes again, at the latest after such a round
  JobReducer* reducer = nullptr;  // of the first epoch
  int dies_entering = -1;         // the slot that dies when it has joined epoch 2
  int late = -1;                  // the slot that is set aside, and waits again after such a round
  uint64_t base_step = 0, logged_steps = 0;  // of the first epoch
};

class ElasticCoordinator {
 public:
  ElasticCoordinator(int world, Script script) : world_(world), script_(std::move(script)) {}

  // The epoch ends for all its members, who are to join the next one.
  void FailEpoch(const std::string& why) {
    absl::MutexLock lock(&mutex_);
    End(Unavailable(why));
  }

  // The others go on without the script's late slot, which lives. Returns when they have.
  void SetAside() {
    absl::MutexLock lock(&mutex_);
    const uint64_t before = epoch_;
    const auto gone = [&] { return epoch_ != before; };
    late_ = true;
    End(Unavailable(absl::StrFormat("rank %d (host h) is late", script_.late)));
    OpenIfComplete();
    Until(gone);
  }

  uint64_t epoch() {
    absl::MutexLock lock(&mutex_);
    return epoch_;
  }

  StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request, Duration timeout) {
    absl::MutexLock lock(&mutex_);
    const int slot = static_cast<int>(request.rank());
    if (request.has_held() && dead_.contains(slot)) return Denied("killed");
    answers_.erase(slot);
    if (epoch_ != 0 && request.held().epoch() == epoch_) {
      for (const uint32_t node : request.held().left()) {
        handed_over_.insert(std::next(members_.begin(), node)->first);
      }
    }
    if (epoch_ != 0 && request.held().epoch() == epoch_) {  // of a running one: it has left that
      End(Unavailable(absl::StrFormat("rank %d (host h) joined again", slot)));
    }
    joining_[slot] = request;
    OpenIfComplete();
    const auto answered = [&] { return answers_.contains(slot); };
    if (mutex_.AwaitWithTimeout(absl::Condition(&answered), absl::FromChrono(timeout))) {
      return answers_.at(slot);
    }
    joining_.erase(slot);
    return TimedOut("not everybody came");
  }

  Status Attend(int slot, const Attendance& attendance, EpochFailed failed) {
    absl::MutexLock lock(&mutex_);
    fills_[slot] = attendance.fill;
    if (slot == script_.dies_entering && epoch_ == 2) {
      Died(slot);
      return Aborted("killed");
    }
    if (!failure_.ok()) failed(failure_, true);
    attending_[slot] = std::move(failed);
    return OkStatus();
  }

  // The heartbeats of a member of `epoch` end.
  void StreamEnded(int slot, uint64_t epoch) {
    absl::MutexLock lock(&mutex_);
    if (epoch != epoch_) return;
    attending_.erase(slot);
    if (!left_.contains(slot)) Died(slot);
  }

  StatusOr<v1::AgreeResponse> Agree(const v1::AgreeRequest& request) {
    absl::MutexLock lock(&mutex_);
    if (request.epoch() != epoch_) return Aborted("another epoch");
    agrees_[request.rank()] = request;
    RW_RETURN_IF_ERROR(Gather(agrees_));
    if (script_.reducer != nullptr && epoch_ == 1 && !std::exchange(serving_, true)) {
      script_.reducer->Connect(Peers());
      script_.reducer->Serve(agrees_.at(0).plan(), agrees_.at(0), 1);
    }
    v1::AgreeResponse response;
    response.set_from_round(base_step_ + 1);
    *response.mutable_plan() = agrees_.at(0).plan();
    return response;
  }

  StatusOr<v1::Commit> Vote(int slot, const v1::VoteRequest& request) {
    absl::MutexLock lock(&mutex_);
    if (request.epoch() != epoch_) return Aborted("another epoch");
    auto& votes = votes_[request.round()];
    const bool dies = slot == script_.doomed && request.round() == script_.round;
    if (dies) {
      const auto others = [&] { return votes.size() + 1 == members_.size() || !failure_.ok(); };
      Until(others);
      if (script_.moment != Moment::kPrepared) votes[request.rank()] = request;
      if (script_.moment == Moment::kCommitted) {
        const StatusOr<v1::Commit> commit = Commit(request, votes);
        Died(slot);
        return commit;
      }
      if (script_.moment != Moment::kNever) {
        Died(slot);
        return Aborted("killed");
      }
    }
    votes[request.rank()] = request;
    const bool silent = script_.moment == Moment::kPrepared || script_.moment == Moment::kVoted;
    if (request.round() == script_.round && silent) {
      const auto over = [&] { return !failure_.ok(); };
      Until(over);
      return failure_;
    }
    RW_RETURN_IF_ERROR(Gather(votes));
    const bool lost = script_.moment == Moment::kAnswerLost && request.round() == script_.round;
    if (lost && slot != 0) return failure_.ok() ? Unavailable("the answer was lost") : failure_;
    return Commit(request, votes);
  }

  // What a heartbeat of a slot would say, whose session is open.
  v1::Beat BeatOf(int slot) {
    absl::MutexLock lock(&mutex_);
    v1::Beat beat;
    fills_.at(slot)(&beat);
    return beat;
  }

  void Leave(int slot) {
    absl::MutexLock lock(&mutex_);
    left_.insert(slot);
    OpenIfComplete();
  }

 private:
  using Joins = std::map<int, v1::JoinRequest>;  // by slot

  std::vector<Peer> Peers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<Peer> peers;
    for (const auto& [slot, join] : members_) {
      peers.push_back({static_cast<int>(peers.size()), "a rank", join.fabric_address()});
    }
    if (script_.reducer != nullptr && epoch_ == 1) {
      peers.push_back({static_cast<int>(peers.size()), "the reducer", script_.reducer->address()});
    }
    return peers;
  }

  void End(const Status& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!failure_.ok()) return;
    failure_ = failure;
    for (auto& [slot, tell] : attending_) tell(failure_, true);
  }

  // A process that was told so itself has no other epoch to go to.
  void Died(int slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    dead_.insert(slot);
    const auto found = attending_.find(slot);
    if (found != attending_.end()) found->second(Aborted("killed"), false);
    attending_.erase(slot);
    End(Unavailable(absl::StrFormat("rank %d (host h) failed", slot)));
    OpenIfComplete();
  }

  void OpenIfComplete() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (epoch_ == 0 && static_cast<int>(joining_.size()) < world_) return;
    if (epoch_ != 0 && failure_.ok()) return;
    for (const auto& [slot, join] : members_) {
      if ((late_ && slot == script_.late) || handed_over_.contains(slot)) continue;
      if (left_.contains(slot)) continue;
      if (!dead_.contains(slot) && !joining_.contains(slot)) return;
    }
    const uint64_t last = epoch_++;
    const std::set<int> holders = Decide(last);
    members_ = std::exchange(joining_, {});
    for (const auto& [slot, join] : members_) {
      returned_ |= dead_.erase(slot) > 0 || (slot == script_.late && std::exchange(late_, false));
    }
    failure_ = OkStatus();
    attending_.clear();
    agrees_.clear();
    votes_.clear();
    for (const auto& [slot, join] : members_) answers_[slot] = WelcomeTo(slot, holders);
  }

  // As the contract says, for members that all were active in the last epoch.
  std::set<int> Decide(uint64_t last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::set<int> holders;
    bool all = true;
    uint64_t newest = 0;
    for (const auto& [slot, join] : joining_) {
      if (join.held().epoch() == last) newest = std::max(newest, join.held().round());
    }
    for (const auto& [slot, join] : joining_) {
      if (join.held().epoch() != last) continue;
      all = all && join.held().round() == newest && join.held().prepared();
    }
    base_step_ = last == 0 ? script_.base_step : newest + all;
    for (const auto& [slot, join] : joining_) {
      const v1::Held& held = join.held();
      const bool has =
          held.round() == base_step_ || (held.prepared() && held.round() + 1 == base_step_);
      if (last != 0 && held.epoch() == last && has) holders.insert(slot);
    }
    return holders;
  }

  v1::JoinResponse WelcomeTo(int self, const std::set<int>& holders)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::JoinResponse response;
    response.set_job(1);
    response.set_epoch(epoch_);
    response.set_elastic(true);
    response.set_world(static_cast<uint32_t>(members_.size()));
    response.set_base_step(base_step_);
    response.set_base_epoch(epoch_ - 1);
    if (epoch_ == 1) response.set_logged_steps(script_.logged_steps);
    response.set_failure_timeout_seconds(0.2);
    response.set_heartbeat_seconds(1);
    uint32_t node = 0;
    for (const auto& [slot, join] : members_) {
      if (slot == self) response.set_node(node);
      if (holders.contains(slot)) response.add_holders(node);
      if (holders.contains(slot) && join.held().round() == base_step_) {
        response.set_checkpoint(response.checkpoint() || join.held().checkpoint());
        response.set_ending(response.ending() || join.held().ending());
      }
      v1::Member* const member = response.add_members();
      member->set_node(node++);
      member->set_role(v1::ROLE_WORKER);
      member->set_rank(slot);
      member->set_host(join.host());
      member->set_fabric_address(join.fabric_address());
    }
    if (script_.reducer != nullptr && epoch_ == 1) {
      v1::Member* const member = response.add_members();
      member->set_node(node);
      member->set_role(v1::ROLE_REDUCER);
      member->set_fabric_address(script_.reducer->address());
    }
    return response;
  }

  template <typename Condition>
  void Until(const Condition& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&condition), absl::Seconds(120)));
  }

  template <typename Request>
  Status Gather(const std::map<uint32_t, Request>& requests) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t epoch = epoch_;
    const size_t all = members_.size();
    bool complete = false;
    const auto over = [&] {
      if (epoch_ == epoch) complete = complete || requests.size() == all;
      return complete || epoch_ != epoch || !failure_.ok();
    };
    Until(over);
    if (complete) return OkStatus();  // what everybody brought stands
    return failure_.ok() ? Aborted("the epoch is over") : failure_;
  }

  StatusOr<v1::Commit> Commit(const v1::VoteRequest& request,
                              const std::map<uint32_t, v1::VoteRequest>& votes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::Commit commit;
    commit.set_epoch(request.epoch());
    commit.set_round(request.round());
    double total = 0;
    for (const auto& [node, vote] : votes) {
      if (vote.digest() != request.digest()) return Internal("the digests differ");
      total += vote.weight();
      if (vote.weight() > 0) commit.add_contributors(node);
      if (vote.non_finite()) commit.set_skipped(true);
      if (vote.ending()) commit.set_ending(true);
    }
    commit.set_checkpoint(commit.ending());
    for (const auto& [node, vote] : votes) {
      if (!vote.leaving()) continue;
      commit.add_leaving(node);
      commit.set_regroup(true);
      failure_ = Unavailable("regroup");
    }
    commit.set_total_weight(total);
    if (total == 0) commit.set_skipped(true);
    if (script_.regroup_after.contains(request.round()) && AwaitNewcomer()) {
      commit.set_regroup(true);
      failure_ = Unavailable("regroup");  // nobody is told of it but by the commit
    }
    return commit;
  }

  // False: it is here already.
  bool AwaitNewcomer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!script_.restart && script_.late < 0) return true;
    if (returned_) return false;
    const int slot = script_.restart ? script_.doomed : script_.late;
    const auto waits = [&] { return joining_.contains(slot) || !failure_.ok(); };
    Until(waits);
    return true;
  }

  const int world_;
  const Script script_;
  absl::Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t base_step_ ABSL_GUARDED_BY(mutex_) = 0;
  Joins members_ ABSL_GUARDED_BY(mutex_);
  Status failure_ ABSL_GUARDED_BY(mutex_);  // of the present epoch
  std::set<int> dead_ ABSL_GUARDED_BY(mutex_);
  std::set<int> left_ ABSL_GUARDED_BY(mutex_);
  std::set<int> handed_over_ ABSL_GUARDED_BY(mutex_);  // and has left with that
  std::map<int, std::function<void(v1::Beat*)>> fills_ ABSL_GUARDED_BY(mutex_);
  bool late_ ABSL_GUARDED_BY(mutex_) = false;      // the script's slot is set aside
  bool returned_ ABSL_GUARDED_BY(mutex_) = false;  // one of the dead, or the late one
  Joins joining_ ABSL_GUARDED_BY(mutex_);
  std::map<int, v1::JoinResponse> answers_ ABSL_GUARDED_BY(mutex_);
  std::map<int, EpochFailed> attending_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, v1::AgreeRequest> agrees_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::map<uint32_t, v1::VoteRequest>> votes_ ABSL_GUARDED_BY(mutex_);
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
};

class ElasticControl : public Control {
 public:
  ElasticControl(ElasticCoordinator* coordinator, int slot)
      : coordinator_(coordinator), slot_(slot) {}
  ~ElasticControl() override { EndAttendance(); }

  StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request, Duration timeout) override {
    return coordinator_->Join(request, timeout);
  }
  Status Attend(const Attendance& attendance, Duration, EpochFailed failed) override {
    attended_ = attendance.epoch;
    failed_ = failed;
    return coordinator_->Attend(slot_, attendance, std::move(failed));
  }
  void Interrupt(const Status& why) override { failed_(why, false); }
  void EndAttendance() override {
    if (attended_ != 0) coordinator_->StreamEnded(slot_, std::exchange(attended_, 0));
  }
  StatusOr<v1::AgreeResponse> Agree(const v1::AgreeRequest& request, Duration) override {
    return coordinator_->Agree(request);
  }
  StatusOr<v1::Commit> Vote(const v1::VoteRequest& request, Duration) override {
    return coordinator_->Vote(slot_, request);
  }
  Status Leave(const v1::LeaveRequest&, Duration) override {
    coordinator_->Leave(slot_);
    return OkStatus();
  }

 private:
  ElasticCoordinator* const coordinator_;
  const int slot_;
  uint64_t attended_ = 0;
  EpochFailed failed_;
};

struct ElasticJob {
  int world = 3;
  Script script = {};
  std::string wire = "fp32";
  MemoryStore* store = nullptr;  // where the test has one
  std::function<std::unique_ptr<UpdateClient>()> updates = nullptr;
  std::function<void(SessionOptions*)> options = nullptr;  // what else they are
};

// Runs `rank` with an open session of its own in a thread for each slot and waits for all.
inline void RunElasticJob(
    const ElasticJob& job, InProcessNetwork* network,
    const std::function<void(std::unique_ptr<Session>, int slot, ElasticCoordinator&)>& rank) {
  ElasticCoordinator coordinator(job.world, job.script);
  MemoryStore store;
  std::vector<std::thread> threads;
  for (int slot = 0; slot < job.world; ++slot) {
    const auto live = [&, slot] {
      SessionOptions options;
      options.coordinator = "127.0.0.1:1";
      options.rank = slot;
      options.world = job.world;
      options.wire = job.wire;
      options.join_timeout_seconds = 60;
      options.log_level = "error";
      if (job.options) job.options(&options);
      Parts parts;
      parts.make_fabric = [&](Loop* net) -> StatusOr<std::unique_ptr<Fabric>> {
        return network->MakeFabric(net);
      };
      parts.control = std::make_unique<ElasticControl>(&coordinator, slot);
      parts.store = std::make_unique<MemoryStoreClient>(job.store != nullptr ? job.store : &store);
      if (job.updates) parts.updates = job.updates();
      auto session = Session::Open(options, std::move(parts));
      ASSERT_TRUE(session.ok()) << session.status();
      rank(*std::move(session), slot, coordinator);
    };
    threads.emplace_back([&, slot, live] {
      live();
      if (job.script.restart && slot == job.script.doomed) live();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ringwood
