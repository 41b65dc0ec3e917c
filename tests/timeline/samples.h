// Timelines of a made-up job: rounds of 100 ms, a ring between all ranks.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "timeline/file.h"

namespace ringwood {

constexpr int64_t kMillisecond = 1'000'000;

// How one rank differs from the others; milliseconds.
struct SampleRank {
  double forward = 30;
  double backward = 40;
  double clock = 0;     // what its clock shows when the first rank's shows 0
  double link = 1;      // its messages take this long
  double commit = 0.1;  // from the last vote until it hears of the commit
};

// Round r begins at 100 r ms. Each rank's ring begins 10 ms after its first gradient and ends at
// 85 ms; votes follow at once, applying ends at 95 ms.
inline std::vector<RankTimeline> SampleTimelines(const std::vector<SampleRank>& ranks, int rounds) {
  std::vector<RankTimeline> timelines(ranks.size());
  const int world = static_cast<int>(ranks.size());
  for (int r = 0; r < world; ++r) {
    timelines[r].info = {
        .job = 1, .epoch = 1, .rank = r, .world = world, .host = absl::StrFormat("h%d", r)};
    const auto time = [&](int rank, int round, double at) {
      return static_cast<int64_t>((1000 + ranks[rank].clock + 100 * round + at) * kMillisecond);
    };
    for (int round = 0; round < rounds; ++round) {
      const auto add = [&](const std::string& category, TimelineLane lane, double from, double to) {
        timelines[r].spans.push_back({.name = category,
                                      .category = category,
                                      .lane = lane,
                                      .begin_nanoseconds = time(r, round, from),
                                      .end_nanoseconds = time(r, round, to),
                                      .round = static_cast<uint64_t>(round)});
      };
      const double first = ranks[r].forward;
      const double last = first + ranks[r].backward;
      add("forward", TimelineLane::kTrainer, 0, first);
      add("backward", TimelineLane::kTrainer, first, last);
      add("ring", TimelineLane::kRing, first + 10, 85);
      add("wait", TimelineLane::kTrainer, last, 85);
      add("vote", TimelineLane::kTrainer, 85, 85 + ranks[r].commit);
      add("apply", TimelineLane::kTrainer, 85 + ranks[r].commit, 95);
      const int next = (r + 1) % world;
      const std::string id = absl::StrFormat("%d/%d", round, r);
      const std::string before = absl::StrFormat("%d/%d", round, (r + world - 1) % world);
      timelines[r].arrows.push_back({id, true, next, time(r, round, 80)});
      timelines[r].arrows.push_back(
          {before, false, 0, time(r, round, 80 + ranks[(r + world - 1) % world].link)});
    }
  }
  return timelines;
}

}  // namespace ringwood
