// Who belongs to the epoch, what was agreed and what was committed: the coordinator's decisions as
// a pure state machine. (state, event, now) → (state, actions); no clock, socket, disk or thread.
//
// An epoch's life, after docs/reliability.md:
//
//   waiting ──world complete──▶ opening ──base found, record persisted──▶ running
//      ▲                                                                    │
//      └────────── failure: everyone is told, or all workers left ──────────┘
//
// A server that is started again with an epoch on disk begins with "reattaching": when all members
// of that epoch have come back it runs again, else it is over.
//
// Of an elastic job the failed epoch stays until the next one begins: its members' streams say who
// is still there and has to join again before that.
//
// Gathering has what is left of the arrow into "running", Epoch what is right of it; this class
// passes each event to the one that handles it.
//
// A process belongs to an epoch by its incarnation; the newest process of a rank wins, but only
// through the next epoch.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/coordinator/epoch/epoch.h"
#include "server/coordinator/event.h"
#include "server/coordinator/gathering/gathering.h"
#include "server/coordinator/membership_options.h"
#include "server/coordinator/outbox.h"
#include "server/coordinator/pulls.h"
#include "server/coordinator/reattachment.h"

namespace ringwood {

class Membership {
 public:
  // `recovered`: the record of the last epoch that was persisted, or empty.
  Membership(MembershipOptions options, v1::EpochRecord recovered);

  Actions On(const Event& event, TimePoint now);

  v1::StatusResponse Describe() const;
  bool Attends(StreamId stream) const;  // a member sends heartbeats on it
  // What a worker of the present epoch, or of one that has failed, was started as.
  std::optional<uint32_t> SlotOf(uint64_t epoch, uint32_t node) const;
  uint64_t epoch() const { return gathering_.record().epoch(); }
  uint64_t step() const { return epoch_ ? epoch_->committed().round : 0; }
  // The last epoch, where no member will come back to it: all have left, or the job failed. Else 0.
  uint64_t ended() const;

 private:
  enum class Phase { kReattaching, kWaiting, kOpening, kRunning, kFailed, kStopped };

  void Handle(const event::Join& event);
  void Handle(const event::Agree& event);
  void Handle(const event::Vote& event);
  void Handle(const event::Reattach& event);
  void Handle(const event::Leave& event);
  void Handle(const event::Pull& event);
  void Handle(const event::CallGone& event);
  void Handle(const event::Heartbeat& event);
  void Handle(const event::StreamBroken& event);
  void Handle(const event::BaseFound& event);
  void Handle(const event::Persisted& event);
  void Handle(const event::Tick& event);
  void Handle(const event::Stop& event);

  // Checks that (epoch, node, incarnation) names a member of the present epoch.
  Status Check(uint64_t epoch, uint32_t node, uint64_t incarnation) const;
  bool HasMembers() const {
    return phase_ == Phase::kRunning || phase_ == Phase::kFailed || Recovers();
  }
  // An elastic job between two epochs.
  bool Recovers() const;
  std::vector<Awaited> AwaitedNow() const;
  void Lose(uint32_t node, const std::string& why);
  void LoseReplaced(Duration patience);
  void Rest();  // no epoch runs and none opens
  void OpenIfComplete();
  Status StoppedForJoins() const;
  bool IsOutdated(const v1::JoinRequest& request) const;
  Status EndedWithout() const;  // for who was away when the job ended; OK: it goes on, or may
  bool HasEndedWithout(const v1::JoinRequest& request) const;
  void AfterJoinOfMember(const v1::JoinRequest& request);
  void Begin(GatheredWorld world);
  void SayLost(const v1::EpochRecord& next);
  bool HandledByReattachment(const v1::LeaveRequest& request);
  void AfterReattachmentEvent();  // follows it where all are back or it is over
  void AfterEpochEvent();         // follows the epoch where it failed or ended
  void Forgive(TimePoint now);
  // Whether something commits that a reader can wait for.
  Status CheckPullable() const;
  uint64_t CommittedRound() const { return epoch_ ? epoch_->committed().round : 0; }
  std::string WaitingText() const;
  void DescribeEpoch(v1::StatusResponse* status) const;

  const MembershipOptions options_;
  Phase phase_ = Phase::kWaiting;
  v1::EpochRecord recovered_;  // until the first event
  Gathering gathering_;
  // Of the epoch on disk; stays after its end, as its members may still join again.
  std::optional<Reattachment> reattachment_;
  std::unique_ptr<Epoch> epoch_;  // the present or last one; null before the first
  Pulls pulls_;
  Status stopped_;  // the answer of a stopped server
  TimePoint now_;   // of the event in hand
  TimePoint last_event_;
  Outbox out_;  // of the event in hand
};

}  // namespace ringwood
