// A coordinator that was started again has an epoch on disk whose members go on without it. They
// come back (rpc Reattach) with what each knows of it; when all are there the epoch goes on where
// it was, and nobody but the coordinator has noticed.
//
//   the last commit    the newest that a worker heard of: the others voted for it and ask again
//   the plan           that of the newest generation that a worker knows
//   the members        as they joined
//
// It is over when a member joins again or another process comes in its place, leaves with an error,
// or does not come back in time. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/coordinator/epoch/epoch.h"
#include "server/coordinator/membership_options.h"
#include "server/coordinator/outbox.h"

namespace ringwood {

class Reattachment {
 public:
  // `record`: as it was read from disk.
  Reattachment(const MembershipOptions& options, v1::EpochRecord record, TimePoint now);

  // Holds the call, or answers it: the process is no member.
  void Add(CallId call, const v1::ReattachRequest& request, Outbox* out);
  bool CallGone(CallId call, Outbox* out);  // true: it was held here, and is answered
  // A member leaves. True: it was one.
  bool Leave(const v1::LeaveRequest& request);
  // A process joins: a member that has ended its part, or one in a member's place.
  void Join(const v1::JoinRequest& request);
  void Tick(TimePoint now);

  // While not over: all members are back, or have left in order.
  bool Complete() const;
  // When complete: what the epoch goes on from. An error: what they know does not fit together.
  StatusOr<Restored> Restore() const;
  void Release(Outbox* out);  // it goes on: answers everyone
  bool AllLeft() const;       // all workers, in order: the job ended meanwhile

  // Answers everyone with the reason: join again.
  void End(TimePoint now, const std::string& why, Outbox* out);
  bool over() const { return over_; }
  const std::string& why() const { return why_; }  // once it has to end; empty before
  // When over: members that may still join again, as far as one can tell.
  std::vector<Awaited> AwaitedBy(TimePoint now) const;

  const v1::EpochRecord& record() const { return record_; }
  std::string Progress() const;  // "2 of 3 members are back, waiting for rank 1 (host h1)"

 private:
  enum class Place : uint8_t {
    kAway,
    kBack,    // its call waits
    kLeft,    // in order
    kUnused,  // the reducer of the coordinator's own process, which died with it
    kGone,    // joined again, failed or replaced: not a member any more
  };
  struct Member {
    Place place = Place::kAway;
    CallId call = 0;
    v1::ReattachRequest request;  // when back
  };

  bool Is(uint32_t node, uint64_t incarnation) const;
  bool IsWorker(size_t node) const { return node < record_.world(); }
  std::string Label(size_t node) const;
  v1::JoinRequest JoinOf(size_t node) const;
  StatusOr<Committed> LastCommit() const;
  StatusOr<std::optional<v1::AgreeRequest>> Table(uint32_t* generation) const;

  const MembershipOptions options_;
  const v1::EpochRecord record_;
  const TimePoint until_;        // members have time to come back
  std::vector<Member> members_;  // by node
  bool over_ = false;
  TimePoint over_since_;
  std::string why_;
};

}  // namespace ringwood
