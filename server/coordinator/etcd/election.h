// Which of several servers coordinates, by a key in etcd: the decisions, pure.
//
// The leader's key exists while its leader lives: it hangs on a lease that the leader keeps alive.
// Who creates the key leads, from then on under the revision of its creation, which no two leaders
// share. A server asks etcd one question at a time:
//
//   watching ──no key──▶ asking for a lease ──▶ creating the key ──created──▶ leading ──▶ deposed
//      ▲                                          │ another was first          (keeps its lease)
//      └──────────────────────────────────────────┘
//
// Leadership ends by this server's own clock before etcd can end the lease: it is valid from the
// time when the last renewal was *sent* for the lease's length, less a margin for clocks that run
// at different rates and for the time that stopping takes. Whatever is delayed or lost, two servers
// never lead at once; that a deposed one writes nothing does not even depend on clocks, since every
// write compares the revision of the leader's key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

// The leader's key as it stands in etcd.
struct LeaderKey {
  std::string address;   // HOST:PORT where the leader serves
  int64_t revision = 0;  // of the key's creation
  int64_t lease = 0;
};

// What to ask etcd.
namespace ask {
struct Look {};
struct Grant {
  int64_t seconds = 0;
};
struct Create {
  int64_t lease = 0;
};
struct KeepAlive {
  int64_t lease = 0;
};
}  // namespace ask
using Ask = std::variant<ask::Look, ask::Grant, ask::Create, ask::KeepAlive>;

struct Question {
  Ask ask;
  TimePoint at;     // not before
  TimePoint until;  // an answer later than this counts as none
};

// What etcd answered.
namespace answer {
struct Leader {  // to Look, and to Create: whose key it is now; none: there is no such key
  std::optional<LeaderKey> key;
};
struct Granted {
  int64_t lease = 0;
  int64_t seconds = 0;
};
struct Kept {
  int64_t seconds = 0;  // 0: there is no such lease any more
};
struct None {  // nobody answered, or etcd refused
  std::string why;
};
}  // namespace answer
using Answer = std::variant<answer::Leader, answer::Granted, answer::Kept, answer::None>;

// The lease that follows from the failure timeout: three fifths of it, so that a dead coordinator
// is replaced within it; at least 3 s, which outlast an election inside etcd (1 to 2 s by default).
int64_t LeaseSeconds(double failure_timeout_seconds);

class Election {
 public:
  enum class Phase { kWatching, kGranting, kCreating, kLeading, kDeposed };

  explicit Election(int64_t lease_seconds);

  Question Next(TimePoint now) const;  // not once it is deposed
  // `sent` is when the question was sent.
  void On(const Answer& answer, TimePoint sent, TimePoint now);

  Phase phase() const { return phase_; }
  bool Leads(TimePoint now) const { return phase_ == Phase::kLeading && now < valid_until_; }
  int64_t revision() const { return revision_; }         // of the own key; 0 before it leads
  int64_t lease() const { return lease_; }               // the newest granted one; 0: none
  const std::string& leader() const { return leader_; }  // who leads, as last seen; empty: nobody
  // Once it is deposed: why, as a sentence.
  const std::string& reason() const { return reason_; }

 private:
  void Handle(const answer::Leader& leader, TimePoint sent, TimePoint now);
  void Handle(const answer::Granted& granted, TimePoint sent, TimePoint now);
  void Handle(const answer::Kept& kept, TimePoint sent, TimePoint now);
  void Handle(const answer::None& none, TimePoint sent, TimePoint now);
  void Depose(const std::string& why);
  TimePoint Expiry(int64_t seconds, TimePoint sent) const;

  const int64_t lease_seconds_;
  Phase phase_ = Phase::kWatching;
  int64_t lease_ = 0;
  int64_t revision_ = 0;
  TimePoint valid_until_;  // of lease_, by the own clock
  TimePoint pause_until_;  // the next question waits for it
  std::string leader_;
  std::string reason_;
};

}  // namespace ringwood
