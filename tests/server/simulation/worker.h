// A worker as the contract has it: joins with what it has, agrees, then round after round computes,
// exchanges, prepares, votes and applies on the commit. What it applied is one number, its state.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/plan/small_plans.h"
#include "tests/server/simulation/process.h"

namespace ringwood::simulation {

inline uint64_t Mix(uint64_t a, uint64_t b) {
  return Random(a * 0x9e3779b97f4a7c15u + b).Next() | 1;
}

// The result of an exchange: what is applied.
struct Update {
  double weight = 0;
  bool bad = false;
  uint64_t content = 0;  // names epoch, round and payload
  bool skipped() const { return bad || weight == 0; }
};

inline Update UpdateOf(uint64_t epoch, uint64_t round, double weight, bool bad) {
  const uint64_t payload = static_cast<uint64_t>(weight) * 2 + bad;
  return {weight, bad, Mix(Mix(epoch, round), payload)};
}

class Worker : public Process {
 public:
  static constexpr uint64_t kJob = 7;
  static constexpr uint64_t kFresh = 1;  // the state of a job that begins
  static constexpr uint64_t kCheckpointEvery = 10;

  Worker(int index, uint32_t rank, uint32_t ranks, Surroundings* world)
      : Process(index, v1::ROLE_WORKER, rank, world), ranks_(ranks) {}

  uint64_t round() const { return round_; }
  // Of the base of its epoch; 0: it has not arrived.
  uint64_t base_state() const { return receiving_ ? 0 : base_state_; }

  void OnExchanged(uint64_t epoch, uint64_t round, double weight, bool bad) override {
    const bool strays = world_.mistake() == Mistake::kNoFencing;
    if (epoch != epoch_ || round != round_ + 1 || prepared_ || (!works_ && !strays)) return;
    update_ = UpdateOf(epoch, round, weight, bad);
    if (world_.mistake() == Mistake::kNoVote) {
      Apply(epoch_, update_);
      return Train();
    }
    prepared_ = true;
    Vote();
  }

 private:
  void Reset() override {
    Process::Reset();
    round_ = state_ = base_state_ = stray_ = 0;
    prepared_ = receiving_ = busy_ = told_ = finishes_ = false;
    heard_.clear();
    last_.Clear();
  }

  void Complete(v1::JoinRequest* request) override {
    if (world_.mistake() == Mistake::kAbortFirst) prepared_ = false;
    request->set_world(ranks_);
    request->set_resume(true);
    request->set_or_start(true);
    request->set_job(kJob);
    const bool hides = receiving_ && world_.mistake() == Mistake::kNewcomerHides;
    if (epoch_ == 0 || hides) return;
    v1::Held& held = *request->mutable_held();
    held.set_job(kJob);
    held.set_epoch(epoch_);
    held.set_round(round_);
    held.set_prepared(prepared_);
    held.set_between_steps(!prepared_ && !finishes_ && world_.agenda().Chance(0.5));
    if (prepared_ && !update_.skipped()) held.set_digest(update_.content);
    held.set_receiving(receiving_ && world_.mistake() != Mistake::kNewcomerHolds);
    world_.agenda().Say("process %d joins with step %d of epoch %d%s%s", index, round_, epoch_,
                        prepared_ ? ", has prepared the next" : "",
                        receiving_ ? ", receiving" : "");
  }

  void Take(const v1::JoinResponse& joined) override {
    const uint64_t base = joined.base_step();
    const auto& holders = joined.holders();
    bool has = std::find(holders.begin(), holders.end(), joined.node()) != holders.end();
    const bool had_all = receiving_ ? false : epoch_ != 0;
    if (world_.mistake() == Mistake::kStepOnly && had_all) {
      has = round_ == base || (prepared_ && round_ + 1 == base);
    }
    finishes_ = false;
    regroups_ = joined.regroup();
    world_.ledger().Expect(!regroups_ || holders.size() == static_cast<int>(joined.world()),
                           "process %d makes calls, and who comes to epoch %d does not", index,
                           joined.epoch());
    world_.agenda().Say("process %d is node %d of epoch %d, which begins at step %d%s", index,
                        joined.node(), joined.epoch(), base, has ? ": it has that" : "");
    if (has && prepared_ && round_ + 1 == base) {
      if (world_.mistake() == Mistake::kWeightFromMemory) {
        update_ = UpdateOf(epoch_, base, joined.world(), false);
      }
      Apply(epoch_, update_);
      ++world_.counts().forwarded;
    }
    world_.ledger().Expect(!has || round_ == base,
                           "process %d is told that it has step %d, it has %d", index, base,
                           round_);
    prepared_ = told_ = false;
    heard_.clear();
    Enter(joined);
    round_ = base;
    ready_ = 0;
    agreed_ = false;
    receiving_ = !has && !holders.empty();
    if (holders.empty()) state_ = base == 0 ? kFresh : world_.Kept(joined.base_epoch(), base);
    if (receiving_) {
      Receive(epoch_);
    } else {
      base_state_ = state_;
      world_.ledger().Has(index, epoch_, base, state_);
    }
    Agree();
  }

  // The state of the base arrives, and what was committed meanwhile follows.
  void Receive(uint64_t epoch) {
    world_.After(*this, world_.agenda().Between(0.02, 1.5), [this, epoch] {
      if (!works_ || epoch != epoch_ || !receiving_) return;
      const uint64_t state = world_.StateFor(*this);
      if (state == 0) return Receive(epoch);
      world_.agenda().Say("process %d has received the state of epoch %d", index, epoch);
      receiving_ = false;
      ++world_.counts().received;
      base_state_ = state_ = state;
      const std::vector<Update> heard = std::exchange(heard_, {});
      round_ -= heard.size();
      world_.ledger().Has(index, epoch_, round_, state_);
      for (const Update& update : heard) Apply(epoch_, update);
    });
  }

  v1::AgreeRequest Table() const {
    static const v1::Plan plan = OneRing(1, "exact");
    v1::AgreeRequest table;
    table.set_epoch(epoch_);
    table.set_rank(node_);
    table.set_incarnation(incarnation);
    v1::Tensor& tensor = *table.add_tensors();
    tensor.set_name("w");
    tensor.set_elements(4);
    tensor.set_route("dense");
    tensor.set_density(1);
    *table.mutable_plan() = plan;
    return table;
  }
  void Agree() {
    event::Agree agree{world_.NewId(*this), Table()};
    if (node_ != 0) agree.request.clear_plan();
    call_ = agree.call;
    world_.Send(*this, shell_, std::move(agree));
  }
  void Take(const v1::AgreeResponse& agreed) override {
    world_.ledger().Expect(agreed.from_round() == round_ + 1,
                           "process %d: the plan is from step %d", index, agreed.from_round());
    agreed_ = true;
    regroups_ ? Call() : Train();
  }

  // What the trainer calls between two steps. The next one begins in another epoch.
  void Call() {
    busy_ = true;
    world_.After(*this, world_.agenda().Between(0.01, 3), [this, epoch = epoch_] {
      busy_ = false;
      if (std::exchange(told_, false)) return Retry();
      if (!works_ || epoch != epoch_) return;
      finishes_ = true;
      Join();
    });
  }

  // Backward. Who is told meanwhile that the epoch is over joins again when it is through.
  void Train() {
    Agenda& agenda = world_.agenda();
    const double seconds = agenda.Chance(0.01) ? agenda.Between(1, 8) : agenda.Between(0.01, 0.1);
    busy_ = true;
    world_.After(*this, seconds, [this, epoch = epoch_] {
      busy_ = false;
      if (std::exchange(told_, false)) return Retry();
      if (!works_ || epoch != epoch_) return;
      weight_ = receiving_ || world_.agenda().Chance(0.1) ? 0 : 1;
      bad_ = weight_ > 0 && world_.agenda().Chance(0.02);
      leaving_ = !receiving_ && world_.agenda().Chance(0.003);
      ++ready_;
      world_.Contribute(*this, round_ + 1, weight_, bad_);
    });
  }

  void Complete(v1::ReattachRequest* request) override {
    request->set_round(round_);
    if (last_.epoch() == epoch_) *request->mutable_last() = last_;
    if (agreed_) *request->mutable_table() = Table();
  }
  void Resume() override {
    if (!agreed_) return Agree();
    if (prepared_) Vote();
  }

  void Vote() {
    if (reattaches_) return;  // afterwards
    event::Vote vote{world_.NewId(*this), {}};
    vote.request.set_epoch(epoch_);
    vote.request.set_rank(node_);
    vote.request.set_incarnation(incarnation);
    vote.request.set_round(round_ + 1);
    vote.request.set_digest(update_.skipped() ? 0 : update_.content);
    vote.request.set_weight(weight_);
    vote.request.set_non_finite(bad_);
    vote.request.set_leaving(leaving_);
    world_.ledger().Voted(epoch_, round_ + 1, node_);
    (works_ ? call_ : stray_) = vote.call;
    world_.Send(*this, works_ ? shell_ : voted_at_, std::move(vote));
    voted_at_ = works_ ? shell_ : voted_at_;
  }
  void Take(const v1::Commit& commit) override {
    Ledger& ledger = world_.ledger();
    ledger.Expect(commit.epoch() == epoch_ && commit.round() == round_ + 1 && prepared_,
                  "process %d hears a commit of (%d, %d) at step %d of epoch %d", index,
                  commit.epoch(), commit.round(), round_, epoch_);
    ledger.Expect(commit.skipped() == update_.skipped() && commit.total_weight() == update_.weight,
                  "process %d: the commit of (%d, %d) has another weight than the round", index,
                  commit.epoch(), commit.round());
    if (const auto* record = ledger.Record(epoch_)) {
      ledger.Committed(index, epoch_, round_ + 1, record->world());
    }
    last_ = commit;
    if (receiving_) {
      heard_.push_back(update_);
      ++round_;
    } else {
      Apply(epoch_, update_);
      if (round_ % kCheckpointEvery == 0) world_.Keep({kJob, epoch_, round_, 0}, state_);
    }
    prepared_ = false;
    if (!works_) return;
    const auto& leaving = commit.leaving();
    const bool leaves = std::find(leaving.begin(), leaving.end(), node_) != leaving.end();
    if (leaves && world_.agenda().Chance(0.7)) {  // else another one died as it handed over
      ++world_.counts().left;
      return world_.Exit(*this);
    }
    commit.regroup() && leaving.empty() ? Call() : commit.regroup() ? Join() : Train();
  }
  void Apply(uint64_t epoch, const Update& update) {
    ++round_;
    state_ = Mix(state_, update.content);
    world_.agenda().Say("process %d applies step %d of epoch %d", index, round_, epoch);
    world_.ledger().Applied(index, epoch, round_, update.content, state_);
  }

  void Take(const v1::Notice& notice) override {
    if (!notice.has_failure() || notice.failure().epoch() != epoch_ || !works_) return;
    if (!notice.failure().recovers()) return world_.Exit(*this);
    if (notice.failure().reason().starts_with("late")) ++world_.counts().late;
    Rejoin();
  }
  void Refused(const Status& status) override {
    const StatusCode code = status.code();
    if (code == StatusCode::kAborted) return Rejoin();
    if (works_ && (code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded)) {
      return Rejoin();
    }
    world_.agenda().Say("process %d ends: %s", index, std::string(status.message()));
    world_.Exit(*this);
  }
  void Rejoin() override {
    const CallId vote = std::exchange(call_, 0);
    if (world_.mistake() == Mistake::kNoFencing && prepared_) {
      stray_ = vote;
    } else if (vote != 0 && shell_ != 0) {
      world_.Send(*this, shell_, event::CallGone{vote});
    }
    if (!works_) return JoinLater();
    if (!busy_) return Join();
    works_ = reattaches_ = false;
    told_ = true;
  }
  bool MayAskAgain() const override { return !works_ || prepared_; }
  void Again() override { works_ ? Vote() : Join(); }
  void Stray(CallId call, Answer& answer) override {
    if (call != stray_ || !prepared_) return;
    if (const auto* commit = std::get_if<v1::Commit>(&answer)) Take(*commit);
  }
  uint64_t step() const override { return round_ + 1; }
  uint64_t progress() const override { return ready_; }

  const uint32_t ranks_;
  uint64_t round_ = 0;  // applied; while receiving: heard of
  bool prepared_ = false;
  Update update_;  // of round_ + 1, while prepared
  double weight_ = 0;
  bool bad_ = false, leaving_ = false;
  uint64_t state_ = 0;
  uint64_t base_state_ = 0;
  bool receiving_ = false;
  std::vector<Update> heard_;  // commits while receiving
  bool agreed_ = false;        // on the epoch's plan
  v1::Commit last_;
  uint64_t ready_ = 0;     // gradients in this epoch
  bool busy_ = false;      // in its backward
  bool finishes_ = false;  // a step, as it joins: it makes no call before
  bool regroups_ = false;  // its epoch, where a step is finished
  bool told_ = false;      // meanwhile, that the epoch is over
  CallId stray_ = 0;       // of the mistake kNoFencing
  uint64_t voted_at_ = 0;
};

}  // namespace ringwood::simulation
