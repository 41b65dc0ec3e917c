// Timelines as values: what a rank did from when to when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeline/event.h"
#include "timeline/observer.h"

namespace ringwood {

// Where a span is drawn. Groups of a route are in its lane, where they may overlap.
enum class TimelineLane : int { kTrainer = 0, kSelection = 1, kRing = 2, kTree = 3 };

struct TimelineSpan {
  std::string name;  // the tensor, or the group's first and last tensor
  // forward | backward | select | ring | tree | wait | vote | apply; of a server: reduce
  std::string category;
  TimelineLane lane = TimelineLane::kTrainer;
  int64_t begin_nanoseconds = 0;
  int64_t end_nanoseconds = 0;
  uint64_t round = 0;
  int group = -1;      // -1: not of one group
  uint64_t bytes = 0;  // sent
  bool operator==(const TimelineSpan&) const = default;
};

// The owner of a timeline.
struct TimelineInfo {
  uint64_t job = 0;
  uint64_t epoch = 0;
  int rank = 0;  // from `world` on: a server, by its node
  int world = 1;
  std::string host;
  bool operator==(const TimelineInfo&) const = default;
};

// Names of spans, from the plan in force.
struct TimelineLabels {
  struct GroupLabel {
    std::string name;
    std::string route;  // "ring" | "tree"
  };
  std::vector<std::string> tensors;
  std::vector<GroupLabel> groups;
};
TimelineLabels LabelsOf(const Plan& plan, const std::vector<TensorSpec>& table);

// The spans of one round from its events, in any order of different groups. The first gradient ends
// "forward", which holds all that the trainer did since the round began; each later one is a
// "backward" span since the one before. Spans without an end (the epoch failed) are left out.
std::vector<TimelineSpan> SpansOf(const TimelineLabels& labels,
                                  const std::vector<TimelineEvent>& round);

}  // namespace ringwood
