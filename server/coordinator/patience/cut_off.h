// Decides who of an elastic job stays apart because the data plane does not reach it, though its
// heartbeats reach the coordinator. Pure: times come in as arguments.
//
// A member that waited in vain for others says for whom when it joins again (Held.silent). Each
// pair that does not hear each other must not be in one epoch; as few as possible stay apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/coordinator/patience/apart.h"

namespace ringwood {

struct Complaint {
  size_t from = 0;
  size_t about = 0;  // == from: it heard nobody
};

// Of `workers`, numbered from 0 and at least 1, those that stay apart, in ascending order: who is
// in most pairs first, of equals the one that others complain of, then the last. Not all of them.
std::vector<size_t> CutOff(size_t workers, const std::vector<Complaint>& complaints);

// Remembers complaints, since one whom nobody reaches may be the first to complain, each time of
// another one. Members are named by their incarnations.
class CutOffs {
 public:
  explicit CutOffs(Duration failure_timeout)
      : timeout_(failure_timeout), apart_(kApartTimeouts * failure_timeout) {}

  // An epoch has begun; its members by node.
  void Begin(uint64_t epoch, std::vector<uint64_t> members) {
    epoch_ = epoch;
    members_ = std::move(members);
  }
  // It has committed a step: what was said of its members before it began is over.
  void Worked();

  // `from` waited in vain for `node` of `epoch`. False: no complaint about that epoch counts.
  bool Hear(uint64_t from, uint64_t epoch, uint32_t node, TimePoint now);

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
  Verdict Judge(const std::vector<uint64_t>& members, TimePoint now);

  // Until when a member stays apart; the clock's beginning: it does not.
  TimePoint Until(uint64_t member) const { return apart_.Until(member); }

 private:
  struct Heard {
    uint64_t from = 0, about = 0, epoch = 0;
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
