#include "timeline/span.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

// The moments of one round.
struct Moments {
  struct GroupMoments {
    std::optional<int64_t> select, selected, start, end;
    uint64_t bytes = 0;
  };
  uint64_t round = 0;
  std::optional<int64_t> begun, wait, voted, committed, applied;
  std::vector<TimelineEvent> ready;
  std::map<uint32_t, GroupMoments> groups;
};

void Take(const TimelineEvent& event, Moments* moments) {
  const int64_t at = event.nanoseconds;
  switch (event.kind) {
    case TimelineKind::kRound:
      moments->begun = at;
      break;
    case TimelineKind::kReady:
      moments->ready.push_back(event);
      break;
    case TimelineKind::kSelect:
      moments->groups[event.index].select = at;
      break;
    case TimelineKind::kSelected:
      moments->groups[event.index].selected = at;
      break;
    case TimelineKind::kGroup:
      moments->groups[event.index].start = at;
      break;
    case TimelineKind::kGroupEnded:
      moments->groups[event.index].end = at;
      moments->groups[event.index].bytes = event.value;
      break;
    case TimelineKind::kWait:
      moments->wait = at;
      break;
    case TimelineKind::kVoted:
      moments->voted = at;
      break;
    case TimelineKind::kCommitted:
      moments->committed = at;
      break;
    case TimelineKind::kApplied:
      moments->applied = at;
      break;
    default:
      break;
  }
}

class SpanList {
 public:
  explicit SpanList(uint64_t round) : round_(round) {}
  // Nothing when an end is missing.
  void Add(const std::string& name, const std::string& category, TimelineLane lane,
           std::optional<int64_t> begin, std::optional<int64_t> end, int group = -1,
           uint64_t bytes = 0) {
    if (!begin || !end) return;
    spans_.push_back({name, category, lane, *begin, std::max(*begin, *end), round_, group, bytes});
  }
  std::vector<TimelineSpan> Sorted() && {
    std::stable_sort(spans_.begin(), spans_.end(),
                     [](const TimelineSpan& a, const TimelineSpan& b) {
                       return a.begin_nanoseconds < b.begin_nanoseconds;
                     });
    return std::move(spans_);
  }

 private:
  const uint64_t round_;
  std::vector<TimelineSpan> spans_;
};

void AddBackward(const TimelineLabels& labels, Moments moments, SpanList* spans) {
  std::stable_sort(
      moments.ready.begin(), moments.ready.end(),
      [](const TimelineEvent& a, const TimelineEvent& b) { return a.nanoseconds < b.nanoseconds; });
  std::optional<int64_t> before = moments.begun;
  for (size_t i = 0; i < moments.ready.size(); ++i) {
    const TimelineEvent& ready = moments.ready[i];
    const bool known = ready.index < labels.tensors.size();
    const std::string name =
        known ? labels.tensors[ready.index] : absl::StrFormat("tensor %d", ready.index);
    spans->Add(i == 0 ? "forward, " + name : name, i == 0 ? "forward" : "backward",
               TimelineLane::kTrainer, before, ready.nanoseconds);
    before = ready.nanoseconds;
  }
}

}  // namespace

TimelineLabels LabelsOf(const Plan& plan, const std::vector<TensorSpec>& table) {
  TimelineLabels labels;
  for (const TensorSpec& tensor : table) labels.tensors.push_back(tensor.name);
  for (const Group& group : plan.groups) {
    std::string name;
    if (!group.tensors.empty() && group.tensors.front() < table.size() &&
        group.tensors.back() < table.size()) {
      name = table[group.tensors.front()].name;
      if (group.tensors.size() > 1) {
        name +=
            absl::StrFormat(" .. %s (%d)", table[group.tensors.back()].name, group.tensors.size());
      }
    }
    labels.groups.push_back({name, group.route});
  }
  return labels;
}

std::vector<TimelineSpan> SpansOf(const TimelineLabels& labels,
                                  const std::vector<TimelineEvent>& round) {
  Moments moments;
  for (const TimelineEvent& event : round) Take(event, &moments);
  SpanList spans(round.empty() ? 0 : round.front().round);
  AddBackward(labels, moments, &spans);
  for (const auto& [index, group] : moments.groups) {
    const bool known = index < labels.groups.size();
    const std::string name = known ? labels.groups[index].name : absl::StrFormat("group %d", index);
    const bool tree = known && labels.groups[index].route == "tree";
    const int number = static_cast<int>(index);
    spans.Add(name, "select", TimelineLane::kSelection, group.select, group.selected, number);
    spans.Add(name, tree ? "tree" : "ring", tree ? TimelineLane::kTree : TimelineLane::kRing,
              group.start, group.end, number, group.bytes);
  }
  spans.Add("wait for the groups", "wait", TimelineLane::kTrainer, moments.wait, moments.voted);
  spans.Add("vote", "vote", TimelineLane::kTrainer, moments.voted, moments.committed);
  spans.Add("apply", "apply", TimelineLane::kTrainer, moments.committed, moments.applied);
  return std::move(spans).Sorted();
}

}  // namespace ringwood
