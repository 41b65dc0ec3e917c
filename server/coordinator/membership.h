// Who belongs to the epoch, what was agreed and what was committed: the coordinator's decisions as
// a pure state machine. (state, event, now) → (state, actions); no clock, socket, disk or thread.
//
// An epoch's life, after docs/reliability.md:
//
//   waiting ──world complete──▶ opening ──base found, record persisted──▶ running
//      ▲                                                                    │
//      └────────── failure: everyone is told, or all workers left ──────────┘
//
// The record of epoch e+1 is on disk before anybody is told of it. A process belongs to an epoch by
// its incarnation; the newest process of a rank wins, but only through the next epoch. Within an
// epoch a round commits when every worker voted with equal digests, once.
//
// The form of today: any member's death ends the epoch and everyone joins again. The record keeps
// the members and the base, so that survivors can go on within a job later.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "server/coordinator/agreement.h"
#include "server/coordinator/ballot.h"
#include "server/coordinator/event.h"
#include "server/coordinator/stall_watch.h"
#include "server/coordinator/waiting_room.h"

namespace ringwood {

// The reducer of the coordinator's own process.
struct OwnReducer {
  uint32_t index = 0;
  uint64_t incarnation = 0;  // 0: there is none
};

struct MembershipOptions {
  int servers = 1;                     // reducers of a job
  double failure_timeout_seconds = 5;  // silence that counts as death, once steps are taken
  double join_timeout_seconds = 120;   // for the world to be complete, and again for its first step
  double stall_timeout_seconds = 0;  // without a move of anyone: ends the epoch; 0: only a warning
  double heartbeat_seconds = 1;      // how often a member beats
  OwnReducer own_reducer = {};
};

class Membership {
 public:
  // `recovered`: the record of the last epoch that was persisted, or empty.
  Membership(MembershipOptions options, v1::EpochRecord recovered);

  Actions On(const Event& event, TimePoint now);

  v1::StatusResponse Describe() const;
  bool Attends(StreamId stream) const;  // a member beats on it
  uint64_t epoch() const { return record_.epoch(); }

 private:
  enum class Phase { kWaiting, kOpening, kRunning, kFailed, kStopped };
  struct Member {
    v1::JoinRequest joined;
    CallId call = 0;      // its Join, while opening
    StreamId stream = 0;  // 0: does not attend yet, or no longer
    TimePoint heard;
    uint64_t step = 0;
    uint64_t progress = 0;  // gradients ready since it began
    bool begun = false;     // a collective of it came to its end
    bool left = false;
    std::string Label() const;
  };

  void Handle(const event::Join& event);
  void Handle(const event::Agree& event);
  void Handle(const event::Vote& event);
  void Handle(const event::Leave& event);
  void Handle(const event::CallGone& event);
  void Handle(const event::Heartbeat& event);
  void Handle(const event::StreamBroken& event);
  void Handle(const event::BaseFound& event);
  void Handle(const event::Persisted& event);
  void Handle(const event::Tick& event);
  void Handle(const event::Stop& event);

  void LookForSilence();
  void LookForEarlyEnd();
  void LookForStall();
  bool Started() const;  // a step was taken, or every rank took part in a collective
  // Whom the others wait for in a running epoch, as far as votes, tables and heartbeats show it.
  struct Held {
    std::vector<uint32_t> ranks;
    std::string text;  // "rank 2 (host h1): 3 of 60 gradients ready"
  };
  Held WhoHolds() const;
  uint64_t ReadyInStep(const Member& worker) const;
  std::string WaitingText() const;

  Status Admit(const v1::JoinRequest& request) const;
  void SayRefused(const std::string& why);
  void OpenIfComplete();
  void AbandonOpening(const Status& why);
  void Begin();
  v1::JoinResponse WelcomeTo(uint32_t node) const;
  void RefuseTwin(const Member& member);
  void Attend(uint32_t node, StreamId stream);
  void Activated();
  Status AdmitPlan(const v1::Plan& plan) const;  // on the tensors that were agreed on
  void TellReducersThePlan();
  void ChangePlan(v1::Commit* commit, const std::string& reason);
  void Decide();
  void End();
  void EndedEarly(uint32_t rank);
  void Fail(uint32_t node, StatusCode code, const std::string& reason);
  void Forgive(TimePoint now);

  // The member that (epoch, rank or node, incarnation) names in the present epoch, or an error.
  StatusOr<Member*> Find(uint64_t epoch, uint32_t node, uint64_t incarnation);
  Member* FindStream(StreamId stream, uint32_t* node);
  uint32_t world() const { return record_.world(); }
  std::string LabelOf(uint32_t node) const;
  Status FailureStatus() const;
  v1::Notice PlanNotice() const;

  template <typename Answer>
  void Reply(CallId call, Answer answer) {
    if (call != 0) actions_.push_back(action::Reply{call, std::move(answer)});
  }
  void Say(const std::string& text, LogLevel level = LogLevel::kInfo);

  const MembershipOptions options_;
  Phase phase_ = Phase::kWaiting;
  v1::EpochRecord record_;  // of the present or last epoch
  WaitingRoom room_;
  std::vector<Member> members_;  // by node; of the present or last epoch, candidates while opening
  v1::EpochRecord proposed_;     // while opening
  std::unique_ptr<Agreement> agreement_;
  std::unique_ptr<v1::Activated> activated_;  // what was agreed, with the present plan
  uint32_t generation_ = 0;                   // its number in this epoch
  std::unique_ptr<Ballot> ballot_;
  uint64_t committed_ = 0;  // rounds
  StallWatch watch_;
  TimePoint left_;  // when the first worker left in order, or when others began another step since
  v1::Commit last_commit_;
  v1::Failure failure_;  // of the last epoch, if it failed
  Status stopped_;       // what a stopped server answers
  TimePoint refusals_since_;
  uint64_t refusals_ = 0;  // since then
  TimePoint now_;          // of the event in hand
  TimePoint last_event_;
  Actions actions_;  // of the event in hand
};

}  // namespace ringwood
