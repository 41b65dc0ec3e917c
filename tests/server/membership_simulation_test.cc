// Membership under a random world: processes that join, vote, crash, stop and come back, streams
// that break, calls that are lost, a disk and a store that answer at once or later, a coordinator
// that loses its memory but not its disk. After every event the promises are checked:
//   - every call gets exactly one reply, and none is forgotten;
//   - the epoch on disk never decreases, and nobody is told of an epoch that is not on disk;
//   - at most one commit for an (epoch, round), the same for all, in order, and only with the votes
//     of all workers of that epoch.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "base/random.h"
#include "server/coordinator/membership.h"
#include "tests/plan/small_plans.h"

namespace ringwood {
namespace {

struct Simulated {
  bool alive = false;
  bool frozen = false;  // stopped: does nothing, its stream stays
  uint64_t incarnation = 0;
  uint64_t epoch = 0;  // 0: has not joined
  uint32_t node = 0;
  uint64_t round = 0;  // committed
  StreamId stream = 0;
  CallId waiting = 0;  // its held call
  bool agreed = false;
  bool over = false;  // it heard of a failure: joins again
};

class SimulatedWorld {
 public:
  SimulatedWorld(uint64_t seed, int workers, int servers, bool slow_disk)
      : random_(seed), workers_(workers), slow_disk_(slow_disk) {
    processes_.resize(workers + servers);
    options_.servers = servers;
    membership_ = std::make_unique<Membership>(options_, disk_);
  }

  void Step() {
    now_ += Seconds(random_.Unit() * 0.4);
    const uint64_t dice = random_.Below(1000);
    if (dice < 4) return Crash(Any());
    if (dice < 7) return Freeze(Any());
    if (dice < 9) return RestartCoordinator();
    if (dice < 14) return LoseCall(Any());
    if (dice < 300) return Send(event::Tick{});
    if (dice < 500 && !answers_.empty()) return SendAnswer();
    Act(Any());
  }

  void ExpectNothingForgotten() {
    Send(event::Stop{"the end"});
    EXPECT_TRUE(open_calls_.empty()) << open_calls_.size() << " calls without a reply";
  }

  uint64_t commits() const { return commits_; }
  uint64_t epochs() const { return disk_.epoch(); }

 private:
  Simulated& Any() { return processes_[random_.Below(processes_.size())]; }
  bool IsWorker(const Simulated& process) const { return &process - &processes_[0] < workers_; }
  uint32_t RankOf(const Simulated& process) const {
    const auto index = &process - &processes_[0];
    return static_cast<uint32_t>(index < workers_ ? index : index - workers_);
  }
  CallId Open(Simulated& process) {
    process.waiting = ++last_id_;
    open_calls_[process.waiting] = &process;
    return process.waiting;
  }

  void Crash(Simulated& process) {
    if (!process.alive) return;
    const Simulated dead = process;
    process = Simulated();
    if (dead.waiting != 0) {
      open_calls_[dead.waiting] = nullptr;
      Send(event::CallGone{dead.waiting});
    }
    if (dead.stream != 0) Send(event::StreamBroken{dead.stream});
  }

  void Freeze(Simulated& process) { process.frozen = !process.frozen; }

  // The caller gives up and will ask again.
  void LoseCall(Simulated& process) {
    if (process.waiting == 0) return;
    const CallId call = process.waiting;
    process.waiting = 0;
    open_calls_[call] = nullptr;
    Send(event::CallGone{call});
  }

  // Memory and connections are gone, the disk stays.
  void RestartCoordinator() {
    open_calls_.clear();
    answers_.clear();
    membership_ = std::make_unique<Membership>(options_, disk_);
    votes_.clear();
    told_ = 0;
    for (Simulated& process : processes_) {
      process.waiting = 0;
      process.stream = 0;
      process.over = true;
    }
  }

  void Act(Simulated& process) {
    if (process.frozen) return;
    if (!process.alive) {
      process.alive = true;
      process.incarnation = random_.Next() | 1;
      return;
    }
    if (process.waiting != 0) {
      if (process.epoch != 0 && process.stream != 0 && !process.over) Beat(process);
      return;
    }
    if (process.epoch == 0 || process.over) return Join(process);
    if (process.stream == 0) {
      process.stream = ++last_id_;
      return Beat(process);
    }
    if (random_.Below(3) == 0 || !IsWorker(process)) return Beat(process);
    process.agreed ? Vote(process) : Agree(process);
  }

  void Join(Simulated& process) {
    const StreamId stream = process.stream;
    process.epoch = 0;
    process.over = process.agreed = false;
    process.stream = 0;
    if (stream != 0) Send(event::StreamBroken{stream});
    event::Join join{Open(process), {}, random_.Next() | 1};
    join.request.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
    join.request.set_role(IsWorker(process) ? v1::ROLE_WORKER : v1::ROLE_REDUCER);
    join.request.set_rank(RankOf(process));
    join.request.set_world(static_cast<uint32_t>(workers_));
    join.request.set_incarnation(process.incarnation);
    join.request.set_resume(true);
    join.request.set_or_start(true);
    join.request.set_job(1);
    Send(join);
  }

  void Beat(Simulated& process) {
    event::Heartbeat beat{process.stream, {}};
    beat.beat.set_epoch(process.epoch);
    beat.beat.set_node(process.node);
    beat.beat.set_incarnation(process.incarnation);
    Send(beat);
  }

  void Agree(Simulated& process) {
    event::Agree agree{Open(process), {}};
    agree.request.set_epoch(process.epoch);
    agree.request.set_rank(process.node);
    agree.request.set_incarnation(process.incarnation);
    if (process.node == 0) *agree.request.mutable_plan() = OneRing(0, "exact");
    Send(agree);
  }

  void Vote(Simulated& process) {
    event::Vote vote{Open(process), {}};
    vote.request.set_epoch(process.epoch);
    vote.request.set_rank(process.node);
    vote.request.set_incarnation(process.incarnation);
    vote.request.set_round(process.round + 1);
    vote.request.set_digest(process.round);
    vote.request.set_weight(1);
    if (random_.Below(20) == 0) {  // a vote of an older epoch arrives late: it must not count
      vote.request.set_epoch(process.epoch - 1);
    } else {
      votes_[{process.epoch, process.round + 1}].insert(process.node);
    }
    Send(vote);
  }

  void Send(const Event& event) {
    for (const Action& action : membership_->On(event, now_)) {
      std::visit([this](const auto& what) { Do(what); }, action);
    }
    // What the shell answers comes as events of its own, after the actions.
    while (!slow_disk_ && !answers_.empty()) SendAnswer();
  }

  void SendAnswer() {
    const Event next = answers_.front();
    answers_.pop_front();
    Send(next);
  }

  void Do(const action::Reply& reply) {
    auto call = open_calls_.find(reply.call);
    ASSERT_NE(call, open_calls_.end()) << "a second reply to call " << reply.call;
    Simulated* process = call->second;
    open_calls_.erase(call);
    if (process == nullptr) return;  // nobody waits for it any more
    process->waiting = 0;
    std::visit([this, process](const auto& answer) { Take(*process, answer); }, reply.answer);
  }
  void Do(const action::FindBase&) { answers_.push_back(event::BaseFound{Newest()}); }
  void Do(const action::Persist& persist) {
    if (random_.Below(20) == 0) {
      answers_.push_back(event::Persisted{Exhausted("no space left")});
      return;
    }
    ASSERT_GT(persist.record.epoch(), disk_.epoch());
    disk_ = persist.record;
    answers_.push_back(event::Persisted{OkStatus()});
  }
  void Do(const action::Activate& activate) { EXPECT_EQ(activate.record.epoch(), disk_.epoch()); }
  void Do(const action::Notify& notify) {
    for (Simulated& process : processes_) {
      if (process.stream == notify.stream && notify.notice.has_failure()) process.over = true;
    }
  }
  void Do(const action::CloseStream& close) {
    for (Simulated& process : processes_) {
      if (process.stream != close.stream) continue;
      process.stream = 0;
      process.over = true;
    }
  }
  void Do(const action::Verdict&) {}
  void Do(const action::Await&) {}
  void Do(const action::Report&) {}

  void Take(Simulated& process, const Status& status) {
    ASSERT_FALSE(status.ok());
    process.over = true;
  }
  void Take(Simulated& process, const v1::JoinResponse& joined) {
    EXPECT_EQ(joined.epoch(), disk_.epoch()) << "told of an epoch that is not on disk";
    EXPECT_GE(joined.epoch(), told_);
    told_ = joined.epoch();
    process.epoch = joined.epoch();
    process.node = joined.node();
    process.round = joined.base_step();
    process.agreed = process.over = false;
  }
  void Take(Simulated& process, const v1::AgreeResponse& agreed) {
    EXPECT_EQ(agreed.from_round(), process.round + 1);
    process.agreed = true;
  }
  void Take(Simulated& process, const v1::Commit& commit) {
    EXPECT_EQ(commit.epoch(), process.epoch);
    EXPECT_EQ(commit.round(), process.round + 1);
    EXPECT_EQ(votes_[std::pair(commit.epoch(), commit.round())].size(),
              static_cast<size_t>(workers_))
        << "a commit without all votes";
    auto [known, is_new] = committed_.try_emplace({commit.epoch(), commit.round()}, commit);
    EXPECT_EQ(known->second.SerializeAsString(), commit.SerializeAsString());
    commits_ += is_new;
    process.round = commit.round();
    if (commit.round() % 4 == 0) checkpoint_ = {1, commit.epoch(), commit.round(), 0};
  }
  void Take(Simulated&, const v1::LeaveResponse&) {}
  void Take(Simulated&, const v1::ReattachResponse&) {}
  void Take(Simulated&, const v1::PullResponse&) {}

  std::optional<CheckpointBase> Newest() const {
    if (!checkpoint_) return std::nullopt;
    CheckpointBase base = *checkpoint_;
    base.world = static_cast<uint32_t>(workers_);
    return base;
  }

  Random random_;
  const int workers_;
  const bool slow_disk_;  // its answers take a while, and the world goes on meanwhile
  MembershipOptions options_;
  TimePoint now_{};
  v1::EpochRecord disk_;
  std::unique_ptr<Membership> membership_;
  std::vector<Simulated> processes_;
  std::map<CallId, Simulated*> open_calls_;  // null: its caller is gone
  std::deque<Event> answers_;
  std::map<std::pair<uint64_t, uint64_t>, std::set<uint32_t>> votes_;
  std::map<std::pair<uint64_t, uint64_t>, v1::Commit> committed_;
  std::optional<CheckpointBase> checkpoint_;
  uint64_t last_id_ = 0;
  uint64_t told_ = 0;
  uint64_t commits_ = 0;
};

void Simulate(bool slow_disk) {
  uint64_t commits = 0, epochs = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SimulatedWorld world(seed, 1 + static_cast<int>(seed % 5), static_cast<int>(seed % 3),
                         slow_disk);
    for (int i = 0; i < 4000 && !testing::Test::HasFailure(); ++i) world.Step();
    world.ExpectNothingForgotten();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    commits += world.commits();
    epochs += world.epochs();
  }
  // The worlds live: a simulation in which nothing happens proves nothing.
  EXPECT_GT(commits, 2000u);
  EXPECT_GT(epochs, 500u);
  std::printf("%lu commits in %lu epochs\n", commits, epochs);
}

TEST(MembershipSimulation, KeepsItsPromisesInRandomWorlds) { Simulate(false); }

TEST(MembershipSimulation, KeepsItsPromisesWhileTheDiskIsSlow) { Simulate(true); }

}  // namespace
}  // namespace ringwood
