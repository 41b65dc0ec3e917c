// Gathers a world, until its epoch begins:
//
//   waiting ──complete──▶ looking for its base ──found──▶ persisting its record ──▶ it begins
//      ▲                          │                               │
//      └──────────── everyone in it is told why not ──────────────┘
//
// The record of epoch e+1 is on disk before anybody is told of it. Processes that join meanwhile
// wait for the next world. A world that continues an elastic job finds its base with its members
// (recovery.h). Pure: times come in as arguments, actions go out.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/coordinator/gathering/waiting_room.h"
#include "server/coordinator/membership_options.h"
#include "server/coordinator/outbox.h"
#include "server/coordinator/patience/apart.h"
#include "server/coordinator/patience/cut_off.h"

namespace ringwood {

// A world whose record is on disk, and the joins that wait for its welcome, by node.
struct GatheredWorld {
  v1::EpochRecord record;
  std::vector<v1::JoinRequest> members;
  std::vector<CallId> calls;
  std::vector<uint32_t> holders;        // nodes that have the base, where it is with members
  bool regroups = false;                // it ends where they finish a step, for others that wait
  std::vector<uint32_t> on_trial = {};  // nodes that were left out for their data plane
};

class Gathering {
 public:
  // `recovered`: the record of the last epoch that was persisted, or empty.
  Gathering(const MembershipOptions& options, v1::EpochRecord recovered);

  // Refuses a process that cannot belong to this world; the newest process of a seat wins.
  void Join(const event::Join& join, TimePoint now, Outbox* out);
  // True: the caller that went away waited here, and is answered.
  bool CallGone(CallId call, TimePoint now, Outbox* out);
  // While no epoch runs. Whoever started the ranks of a fixed job is told who is missing, in ever
  // longer intervals since somebody came or went: it may know that they will not come.
  void TellAwaited(TimePoint now, Outbox* out);
  // Answers callers that have waited for too long. `busy`: an epoch is running meanwhile.
  void RefuseOverdue(TimePoint now, bool busy, const std::vector<Awaited>& awaited, Outbox* out);
  // A member of the running epoch is alive, so a second process of its seat is refused, once it has
  // waited so long that the first one's heartbeat was sent after it joined.
  void RefuseTwin(const v1::JoinRequest& member, TimePoint now, Outbox* out);
  // Another process of a member's seat waits here, since that time or before.
  bool HasSuccessor(const v1::JoinRequest& member, TimePoint since) const;
  // A member of the epoch before is gone: its join, if it waits here, is answered.
  void Drop(const v1::JoinRequest& member, const Status& why, Outbox* out);
  void Stop(const Status& reason, Outbox* out);  // answers everyone
  // Answers the workers that were in an epoch of the job.
  void DropMembers(const Status& why, Outbox* out);
  // An epoch has ended without a member that was late: it stays apart for a while, the longer the
  // more often that happens.
  void WasLate(const v1::JoinRequest& member, TimePoint now, Outbox* out);
  // An elastic epoch is over: from now on those that wait are waited for.
  void Restart(TimePoint now) { room_.Restart(now); }

  bool Complete(const std::vector<Awaited>& awaited, TimePoint now) const {
    return now >= again_ && room_.Complete(awaited, now);
  }
  bool opening() const { return opening_; }
  // When complete and not opening: takes the world out of the room and looks for its base. Not
  // opening afterwards: who continued an elastic job was told that it cannot, or too few of them
  // reach each other over the data plane, or none of them has the state and `more` may come.
  void Open(bool more, TimePoint now, Outbox* out);
  void BaseFound(const event::BaseFound& found, Outbox* out);
  // The world, if all of it still waits. Otherwise the epoch's number is spent, and those that wait
  // gather again.
  std::optional<GatheredWorld> Persisted(const Status& status, TimePoint now, Outbox* out);

  const v1::EpochRecord& record() const { return record_; }
  std::string Progress(const std::vector<Awaited>& awaited, TimePoint now) const {
    return room_.Progress(awaited, now);
  }
  std::optional<uint32_t> FirstWorker() const { return room_.FirstWorker(); }
  bool HasMoreThan(const Roster& members, TimePoint now) const {
    return room_.HasMoreThan(members, now);
  }

 private:
  void Moved(TimePoint now);
  void SayRefused(const std::string& why, TimePoint now, Outbox* out);
  bool SetApart(TimePoint now, Outbox* out);                                 // true: somebody
  bool HearComplaints(const std::vector<Waiting*>& members, TimePoint now);  // true: any
  TimePoint ApartUntil(uint64_t incarnation) const {
    return std::max(cut_offs_.Until(incarnation), stragglers_.Until(incarnation));
  }
  void GiveUp(const std::string& why, TimePoint now, Outbox* out);
  void AwaitMore(TimePoint now, Outbox* out);
  void KeepCallsTogether(uint64_t base_step, Outbox* out);
  void NotKept(const Status& why, TimePoint now, Outbox* out);
  void PutBack(Waiting waiting, TimePoint since, Outbox* out);
  void Abandon(const Status& why, Outbox* out);

  const MembershipOptions options_;
  v1::EpochRecord record_;  // the newest that is on disk
  WaitingRoom room_;
  bool opening_ = false;
  std::vector<Waiting> candidates_;  // while opening, by node; call 0: it went away
  v1::EpochRecord proposed_;         // while opening
  std::vector<uint32_t> holders_;    // of proposed_
  bool regroups_ = false;            // as in GatheredWorld
  CutOffs cut_offs_;
  Apart stragglers_;
  uint64_t spent_ = 0;        // the epoch of a record that may be on disk, or come there
  TimePoint again_;           // after a disk that failed, or where nobody had the state
  bool awaits_more_ = false;  // for the second reason: the next to join may have it
  TimePoint moved_;           // somebody came or went
  TimePoint tell_;            // when it is told who is missing
  TimePoint refusals_since_;
  uint64_t refusals_ = 0;  // since then
};

}  // namespace ringwood
