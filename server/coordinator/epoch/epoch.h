// One epoch (numbered membership) from its first heartbeat to its end: what its members agree on,
// which rounds they commit, which members are present, and why it failed. Pure.
//
// Within an epoch a round commits when every worker voted with equal digests, once.
//
// An epoch ends with the death of any member. In an elastic job it commits nothing afterwards,
// tells its members to join again and watches their streams until the next one begins: who is still
// there is waited for. An epoch holds no Join: it is made of a record, a roster and what was
// committed before.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/coordinator/epoch/ballot.h"
#include "server/coordinator/epoch/epoch_plan.h"
#include "server/coordinator/epoch/presence.h"
#include "server/coordinator/epoch/welcome.h"
#include "server/coordinator/gathering/waiting_room.h"
#include "server/coordinator/membership_options.h"
#include "server/coordinator/outbox.h"
#include "server/coordinator/roster.h"

namespace ringwood {

// The rounds that are committed.
struct Committed {
  uint64_t round = 0;  // the last
  v1::Commit commit;   // of that round; empty: it was committed before this epoch
};

// What is known of an epoch whose members came back to a coordinator that was started again.
struct Restored {
  v1::EpochRecord record;                // with the incarnations of its members
  std::vector<v1::JoinRequest> members;  // by node
  Committed committed;
  std::optional<v1::AgreeRequest> table;  // with the plan in force; none: it is not agreed on yet
  uint32_t generation = 0;                // of that plan
  std::vector<uint32_t> left;             // nodes that are not there any more, and are not needed
  std::vector<uint32_t> without_plan;     // workers that were not told of it
};

class Epoch {
 public:
  enum class State { kRunning, kFailed, kEnded };

  // `record` is on disk. `holders`: nodes that have its base, where that is with members.
  // `regroups`: it commits nothing, and ends where its members finish a step.
  Epoch(const MembershipOptions& options, v1::EpochRecord record, Roster roster,
        Committed committed, TimePoint now, std::vector<uint32_t> holders = {},
        bool regroups = false);

  // Goes on with it. An error: its plan cannot run.
  static StatusOr<std::unique_ptr<Epoch>> Restore(const MembershipOptions& options,
                                                  Restored restored, TimePoint now);

  v1::JoinResponse WelcomeTo(uint32_t node) const {
    v1::JoinResponse welcome = ringwood::WelcomeTo(node, options_, record_, roster_, holders_);
    welcome.set_regroup(regroups_);
    return welcome;
  }

  // Checks that `incarnation` is `node` of this epoch and may still act in it.
  Status Check(uint32_t node, uint64_t incarnation) const;

  // Of a member that Check admits, while running.
  void Agree(CallId call, const v1::AgreeRequest& request, TimePoint now, Outbox* out);
  void Vote(CallId call, const v1::VoteRequest& vote, TimePoint now, Outbox* out);
  // A member whose connection broke and that brings no table: it may ask again for what the others
  // agreed on.
  void CameBack(const v1::ReattachRequest& request);
  void Leave(const v1::LeaveRequest& request, TimePoint now, Outbox* out);
  // Also of a member of an epoch that Recovers. False: the member has left cleanly, and its stream
  // is closed, or it counts as lost.
  bool Heartbeat(StreamId stream, const v1::Beat& beat, TimePoint now, Outbox* out);

  // After the failure of an epoch that Recovers: the member that is lost with it.
  std::optional<uint32_t> StreamBroken(StreamId stream, TimePoint now, Outbox* out);
  bool CallGone(CallId call, Outbox* out);  // true: it was held here, and is answered
  void Tick(TimePoint now, Outbox* out);    // silence, early ends, stalls
  void Forgive(Duration gap) { presence_.Forgive(gap); }
  // What is asked is answered so, and asked again of the next coordinator; nothing is accepted
  // afterwards.
  void Suspend(const Status& why, Outbox* out);
  // Notifies all members; nothing is accepted afterwards.
  void Fail(const Blame& blame, Outbox* out);
  // A process waits that could take part: the next commit that is later than a second after the
  // epoch's beginning asks the members to join again where they begin the next step.
  void WantRegroup(bool wanted) { regroup_wanted_ = wanted; }
  // A member has ended its part in the epoch, and says who has left it in order: nobody waits for
  // them. Where the epoch runs it is over: because members were asked to join again, as those have
  // left, or for `why`.
  void JoinsAgain(const v1::Held& held, const std::string& why, Outbox* out);
  // A reader waits for a checkpoint: commits say so.
  void WantCheckpoint(bool wanted) { checkpoint_wanted_ = wanted; }

  // After the failure of an epoch of an elastic job, until the next one begins.
  bool Recovers() const { return state_ == State::kFailed && failure_.recovers(); }
  void Watch(TimePoint now);  // once, when it has failed
  std::vector<uint32_t> LoseSilent(TimePoint now) { return presence_.LoseSilent(now); }
  void Lost(uint32_t node) { presence_.Lost(node); }  // it will not join again
  // A worker that counts as lost may still come back, with what it has: no longer than the join
  // timeout.
  bool MayHaveMore(TimePoint now) const;
  // Members that are there. None once the join timeout is over: nobody waits longer for them.
  std::vector<Awaited> AwaitedBy(TimePoint now) const;

  State state() const { return state_; }
  const v1::EpochRecord& record() const { return record_; }
  const Roster& roster() const { return roster_; }
  const Committed& committed() const { return committed_; }
  const v1::Failure& failure() const { return failure_; }      // empty: none
  const std::vector<uint32_t>& late() const { return late_; }  // the ranks that it ended for
  bool regrouped() const { return regrouped_; }                // for members that leave or come
  // All have left in order, and nobody had asked them to: the job has nothing left to do.
  bool finished() const {
    return state_ == State::kEnded && !all_leave_ && !committed_.commit.ending();
  }
  Status FailureStatus() const;
  bool Attends(StreamId stream) const { return presence_.Attends(stream); }
  std::vector<uint32_t> Unattended() const;  // nodes that are there, and sent no heartbeat yet
  std::string WhoHolds() const { return presence_.WhoHolds(Progress()).text; }
  // The nodes that the others wait for; none where all are alike.
  std::vector<uint32_t> HeldUpBy() const;
  const ActivePlan* plan() const { return plan_.active(); }  // null: none is agreed on

 private:
  void Activate(Outbox* out);
  void TellReducersThePlan(Outbox* out) const;
  Status CheckVote(const v1::VoteRequest& vote) const;
  void Decide(TimePoint now, Outbox* out);
  void ChangePlan(v1::Commit* commit, Outbox* out);
  void EndedEarly(const Presence::Leaver& left, Outbox* out);
  void Regroup(uint32_t first, Outbox* out);
  // The members were asked to join again.
  bool regrouping() const { return regroups_ || committed_.commit.regroup(); }
  void End(Outbox* out);
  Blame Nobody(const Status& why) const { return {roster_.size(), why.code(), Message(why)}; }
  Standing Progress() const;
  bool IsNewcomer(uint32_t rank) const;
  bool IsDone(uint32_t node) const;

  const MembershipOptions options_;
  const v1::EpochRecord record_;
  const Roster roster_;
  const std::vector<uint32_t> holders_;
  const bool regroups_;
  const TimePoint begun_;
  Committed committed_;
  Presence presence_;
  EpochPlan plan_;
  std::unique_ptr<Ballot> ballot_;  // while votes of the next round arrive
  State state_ = State::kRunning;
  bool regroup_wanted_ = false;
  bool regrouped_ = false;  // it ended in order
  bool all_leave_ = false;  // as they were asked to, with the step that was committed last
  bool checkpoint_wanted_ = false;
  v1::Failure failure_;
  std::vector<uint32_t> late_;
  std::vector<uint32_t> leaving_;  // in order, by what was committed or a member says
  std::set<uint32_t> left_;        // likewise, as a member says that took over what they owe
  TimePoint watched_since_;
};

}  // namespace ringwood
