// Who of an elastic job stays apart for a while, so that the others are not held up by it again and
// again: each time twice as long as the time before. Pure: times come in as arguments.
//
// Members are named by their incarnations. Each process has one of its own, so whom nobody speaks
// of any more is forgotten.
#pragma once

#include <cstdint>
#include <map>

#include "base/clock.h"

namespace ringwood {

class Apart {
 public:
  static constexpr int kMostDoublings = 6;
  static constexpr int kRemembered = 10;  // times its length, after which a sentence is forgotten

  explicit Apart(Duration first) : first_(first) {}

  // Its sentence, from now on; zero where it serves one already.
  Duration Sentence(uint64_t member, TimePoint now);
  // It is not guilty of what its present sentence is for.
  void Free(uint64_t member);
  // The clock's beginning: it does not stay apart.
  TimePoint Until(uint64_t member) const;

 private:
  struct Served {
    TimePoint until;
    Duration length{};
    TimePoint judged;
  };
  void Forget(TimePoint now);

  const Duration first_;
  std::map<uint64_t, Served> served_;
};

}  // namespace ringwood
