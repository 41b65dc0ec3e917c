// Tracks which members of an epoch are present and whom the others wait for: streams, heartbeats,
// progress. Pure: times come in as arguments, the member at fault comes out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/coordinator/epoch/failure.h"
#include "server/coordinator/membership_options.h"
#include "server/coordinator/patience/stall_watch.h"
#include "server/coordinator/patience/straggler_watch.h"
#include "server/coordinator/roster.h"

namespace ringwood {

// The progress of the epoch, as votes and tables show it.
struct Standing {
  uint64_t committed = 0;                     // rounds
  std::optional<uint64_t> tensors;            // of the plan; none: the ranks have not agreed on one
  std::function<std::string(uint32_t)> name;  // of a tensor of the plan
  std::vector<uint32_t> missing;    // ranks whose table or vote the others wait for; else all
  bool voting = false;              // there is a vote
  std::vector<uint32_t> newcomers;  // ranks that have hardly begun: they are not late
};

class Presence {
 public:
  // `roster` outlives it. `base_step`: the last step before the epoch. `under_way`: its members
  // trained before, so silence counts from the beginning.
  Presence(const MembershipOptions& options, const Roster& roster, uint64_t base_step,
           bool under_way, TimePoint now);

  // A heartbeat of a member. The first one of a stream starts its attendance; returns the stream
  // that it displaces, or 0.
  StreamId Heartbeat(uint32_t node, StreamId stream, const v1::Beat& beat, TimePoint now);
  // Ends the attendance of a stream; returns its member.
  std::optional<uint32_t> Broken(StreamId stream);
  // `saves`: checkpoints that it had begun; nullopt: not known.
  void Left(uint32_t node, std::optional<uint64_t> saves, TimePoint now);  // in order
  void Moved(TimePoint now) { stalls_.Moved(now); }
  void Committed(TimePoint now) { stalls_.Committed(now); }
  void Forgive(Duration gap);  // the coordinator itself stood still: that time is no silence

  bool Attends(StreamId stream) const;
  StreamId stream(uint32_t node) const { return members_[node].stream; }
  bool left(uint32_t node) const { return members_[node].left; }
  std::optional<uint32_t> FirstLeft() const;  // of the workers
  bool AllLeft() const;                       // all workers

  // A member that was silent for too long.
  std::optional<Blame> Silent(const Standing& standing, TimePoint now) const;
  // Ranks for which the others have waited longer than the grace.
  std::optional<Blame> Late(const Standing& standing, TimePoint now);
  // A rank that left while another one has gradients ready for another step, or waits for it in a
  // call. EndedEarly waits until the other one has had time to leave, too.
  struct Leaver {
    uint32_t rank;
    std::string meanwhile = "while others train on";
  };
  std::optional<Leaver> LeftOthers(const Standing& standing, TimePoint now) const;
  std::optional<Leaver> EndedEarly(const Standing& standing, TimePoint now) const;
  // A rank that waits outside of the steps for one that waits for it in a step, for ever: a call
  // that not every rank makes. Only long after, as what it waits for may be on its way to it.
  std::optional<Blame> Crossed(const Standing& standing, TimePoint now) const;
  // No progress: a log line when one is due, the member at fault when the epoch shall end for it.
  struct Stall {
    std::string text;
    std::optional<Blame> blame;
  };
  std::optional<Stall> LookForStall(const Standing& standing, TimePoint now);

  // After a failed epoch of an elastic job: who is still there, so that the next one waits for it.
  // Silence that counted already still does; else it counts from now on.
  void Watch(const Standing& standing, TimePoint now);
  void Lost(uint32_t node) { members_[node].lost = true; }
  std::vector<uint32_t> LoseSilent(TimePoint now);  // returns those that were not lost before
  bool there(uint32_t node) const { return !members_[node].left && !members_[node].lost; }
  // Counts as lost for its silence only: its process may live.
  bool silent(uint32_t node) const { return members_[node].lost && members_[node].stream != 0; }

  // Whom the others wait for.
  struct Held {
    std::vector<uint32_t> ranks;
    std::string text;  // "waiting for rank 2 (host h1), 3 of 60 gradients ready"
  };
  Held WhoHolds(const Standing& standing) const;

 private:
  struct Member {
    StreamId stream = 0;  // 0: does not attend yet, or no longer
    TimePoint heard;
    uint64_t step = 0;
    uint64_t progress = 0;            // gradients ready since it began
    uint64_t loaded = 0;              // the newest round whose data it has; 0: it does not say
    std::optional<uint32_t> missing;  // the tensor whose gradient is the next to become ready
    uint64_t call = 0;                // the exchange outside of the steps that it waits in; 0: none
    uint64_t saves = 0;               // checkpoints that it has begun
    uint64_t group_calls = 0;         // calls of its communicators that have ended
    bool saving = false;              // it waits for the last of them
    TimePoint called;                 // when one of these changed
    bool begun = false;               // a collective of it came to its end
    bool left = false;
    bool lost = false;  // while watched: its stream broke, or it fell silent
  };

  bool Started(const Standing& standing) const;  // a step was taken, or all took part in something
  uint64_t ReadyInStep(uint32_t rank, const Standing& standing) const;
  bool SomeWait(const Standing& standing) const;
  bool IsMissing(uint32_t rank, const Standing& standing) const;
  // No rank has registered a tensor, and some have called communicators.
  bool OnlyCallsGroups(const Standing& standing) const;
  std::string WhatHolds(uint32_t rank, const Standing& standing, TimePoint now) const;
  std::string Gradients(uint32_t rank, const Standing& standing) const;
  // Whether it waits outside of the steps; for something that `other` did not begin.
  bool Calls(uint32_t rank, const Standing& standing) const;
  bool CallsFor(uint32_t rank, uint32_t other, const Standing& standing) const;
  bool WaitsInStep(uint32_t rank, const Standing& standing) const;

  const MembershipOptions options_;
  const Roster& roster_;
  const uint64_t base_step_;
  const bool under_way_;
  std::vector<Member> members_;  // by node
  StallWatch stalls_;
  StragglerWatch stragglers_;
  TimePoint left_;  // when the last worker left in order
};

}  // namespace ringwood
