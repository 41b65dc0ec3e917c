// Decides who of an elastic job stays apart because the data plane does not reach it, though its
// heartbeats reach the coordinator. Pure: times come in as arguments.
//
// A member that waited in vain for others says for whom when it joins again (Held.silent). Each
// pair that does not hear each other must not be in one epoch; as few as possible stay apart. Where
// a network is cut off and not a process, the pair is one of hosts, and all members of one of the
// two stay apart at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/coordinator/patience/apart.h"

namespace ringwood {

struct Complaint {
  size_t from = 0;
  size_t about = 0;   // == from: it heard nobody of another host
  bool host = false;  // nobody of that one's host answered
};

// Of the members whose hosts these are (empty: not known, one by itself), those that stay apart, in
// ascending order. Hosts are looked at first, then processes: who is in most pairs first, of equals
// the one that others complain of, then the host with fewer members, then the last. Not all of
// them.
std::vector<size_t> CutOff(const std::vector<std::string>& hosts,
                           const std::vector<Complaint>& complaints);

// Remembers complaints, since one whom nobody reaches may be the first to complain, each time of
// another one. Members are named by their incarnations.
class CutOffs {
 public:
  struct Member {
    uint64_t incarnation = 0;
    std::string host = "";
  };

  explicit CutOffs(Duration failure_timeout)
      : timeout_(failure_timeout), apart_(kApartTimeouts * failure_timeout) {}

  // An epoch has begun; its members' incarnations by node.
  void Begin(uint64_t epoch, std::vector<uint64_t> members) {
    epoch_ = epoch;
    members_ = std::move(members);
  }
  // It has committed a step: what was said of its members before it began is over.
  void Worked();

  // `from` waited in vain for `node` of `epoch`, and for all others of its `host` or not. False: no
  // complaint about that epoch counts.
  bool Hear(uint64_t from, uint64_t epoch, uint32_t node, bool host, TimePoint now);

  // Who of `members` stays apart: indices, ascending. `sentences` are those that begin now, each
  // twice as long as the one before: the network may be mended, and trying costs the others a
  // failure timeout. Who is not among them is free.
  struct Sentence {
    size_t member = 0;
    Duration length{};
  };
  struct Verdict {
    std::vector<size_t> apart;
    std::vector<Sentence> sentences;
  };
  Verdict Judge(const std::vector<Member>& members, TimePoint now);

  // Until when a member stays apart; the clock's beginning: it does not.
  TimePoint Until(uint64_t member) const { return apart_.Until(member); }

 private:
  struct Heard {
    uint64_t from = 0, about = 0, epoch = 0;
    bool host = false;
    TimePoint at;
  };
  bool IsMember(uint64_t member) const;

  static constexpr int kApartTimeouts = 2;        // failure timeouts of the first sentence
  static constexpr int kRememberedTimeouts = 20;  // failure timeouts that a complaint counts

  const Duration timeout_;
  uint64_t epoch_ = 0;
  std::vector<uint64_t> members_;
  std::vector<Heard> complaints_;  // one a pair
  Apart apart_;
};

}  // namespace ringwood
