#include "timeline/reducer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "plan/wire.h"
#include "timeline/chrome.h"

namespace ringwood {
namespace {

// The last sends of a round are noted after the first messages of the next have come.
constexpr size_t kOpenRounds = 2;

}  // namespace

StatusOr<std::unique_ptr<ReducerTimeline>> ReducerTimeline::Create(const std::string& file) {
  RW_ASSIGN_OR_RETURN(auto output, TimelineOutput::Create(file));
  return std::unique_ptr<ReducerTimeline>(new ReducerTimeline(std::move(output)));
}

ReducerTimeline::~ReducerTimeline() {
  absl::MutexLock lock(&mutex_);
  while (!rounds_.empty()) WriteOldest();
}

void ReducerTimeline::Opened(const ObservedSession& session) {
  absl::MutexLock lock(&mutex_);
  rounds_.clear();
  node_ = session.rank;
  output_->Begin(
      ChromeOpening({session.job, session.epoch, session.rank, session.world, session.host}));
}

void ReducerTimeline::Sent(int peer, const MessageName& name, uint64_t bytes,
                           int64_t begin_nanoseconds, int64_t end_nanoseconds) {
  absl::MutexLock lock(&mutex_);
  NotesOf(name)->Sent(peer, name, bytes, begin_nanoseconds, end_nanoseconds);
}

void ReducerTimeline::Received(int peer, const MessageName& name, int64_t at_nanoseconds) {
  absl::MutexLock lock(&mutex_);
  NotesOf(name)->Received(peer, name, at_nanoseconds);
}

ChunkNotes* ReducerTimeline::NotesOf(const MessageName& name) {
  ChunkNotes* const notes = &rounds_[RoundOf(name.round)];
  if (rounds_.size() > kOpenRounds && notes != &rounds_.begin()->second) WriteOldest();
  return notes;
}

void ReducerTimeline::WriteOldest() {
  output_->Add([node = node_, notes = std::move(rounds_.begin()->second)] {
    return ChromeLines(node, ReduceSpans(notes.chunks())) + ChromeLines(node, notes.chunks());
  });
  rounds_.erase(rounds_.begin());
}

std::vector<TimelineSpan> ReduceSpans(const std::vector<TimelineChunk>& chunks) {
  std::vector<TimelineSpan> spans;
  for (const TimelineChunk& chunk : chunks) {
    int64_t heard = 0;
    for (const TimelineChunk::Touch& touch : chunk.touches) {
      heard = std::max(heard, touch.first_received_nanoseconds);
    }
    if (heard == 0 || chunk.sent_bytes == 0) continue;
    spans.push_back({.name = absl::StrFormat("group %d", chunk.group),
                     .category = "reduce",
                     .lane = TimelineLane::kTree,
                     .begin_nanoseconds = heard,
                     .end_nanoseconds = std::max(heard, chunk.end_nanoseconds),
                     .round = chunk.round,
                     .group = static_cast<int>(chunk.group),
                     .bytes = chunk.sent_bytes});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const TimelineSpan& a, const TimelineSpan& b) {
    return a.begin_nanoseconds < b.begin_nanoseconds;
  });
  int64_t end = 0;
  for (TimelineSpan& span : spans) {
    span.begin_nanoseconds = std::max(span.begin_nanoseconds, end);
    span.end_nanoseconds = std::max(span.end_nanoseconds, span.begin_nanoseconds);
    end = span.end_nanoseconds;
  }
  return spans;
}

}  // namespace ringwood
