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

StatusOr<std::unique_ptr<ReducerTrace>> ReducerTrace::Create(const std::string& file) {
  RW_ASSIGN_OR_RETURN(auto output, TraceOutput::Create(file));
  return std::unique_ptr<ReducerTrace>(new ReducerTrace(std::move(output)));
}

ReducerTrace::~ReducerTrace() {
  absl::MutexLock lock(&mutex_);
  while (!rounds_.empty()) WriteOldest();
}

void ReducerTrace::Opened(const ObservedSession& session) {
  absl::MutexLock lock(&mutex_);
  rounds_.clear();
  node_ = session.rank;
  output_->Begin(
      ChromeOpening({session.job, session.epoch, session.rank, session.world, session.host}));
}

void ReducerTrace::Sent(int peer, const MessageName& name, uint64_t bytes,
                        int64_t begin_nanoseconds, int64_t end_nanoseconds) {
  absl::MutexLock lock(&mutex_);
  NotesOf(name)->Sent(peer, name, bytes, begin_nanoseconds, end_nanoseconds);
}

void ReducerTrace::Received(int peer, const MessageName& name, int64_t at_nanoseconds) {
  absl::MutexLock lock(&mutex_);
  NotesOf(name)->Received(peer, name, at_nanoseconds);
}

ChunkNotes* ReducerTrace::NotesOf(const MessageName& name) {
  ChunkNotes* const notes = &rounds_[RoundOf(name.round)];
  if (rounds_.size() > kOpenRounds && notes != &rounds_.begin()->second) WriteOldest();
  return notes;
}

void ReducerTrace::WriteOldest() {
  output_->Add([node = node_, notes = std::move(rounds_.begin()->second)] {
    return ChromeLines(node, ReduceSpans(notes.chunks())) + ChromeLines(node, notes.chunks());
  });
  rounds_.erase(rounds_.begin());
}

std::vector<TraceSpan> ReduceSpans(const std::vector<TraceChunk>& chunks) {
  std::vector<TraceSpan> spans;
  for (const TraceChunk& chunk : chunks) {
    int64_t heard = 0;
    for (const TraceChunk::Touch& touch : chunk.touches) {
      heard = std::max(heard, touch.first_received_nanoseconds);
    }
    if (heard == 0 || chunk.sent_bytes == 0) continue;
    spans.push_back({.name = absl::StrFormat("group %d", chunk.group),
                     .category = "reduce",
                     .lane = TraceLane::kTree,
                     .begin_nanoseconds = heard,
                     .end_nanoseconds = std::max(heard, chunk.end_nanoseconds),
                     .round = chunk.round,
                     .group = static_cast<int>(chunk.group),
                     .bytes = chunk.sent_bytes});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const TraceSpan& a, const TraceSpan& b) {
    return a.begin_nanoseconds < b.begin_nanoseconds;
  });
  int64_t end = 0;
  for (TraceSpan& span : spans) {
    span.begin_nanoseconds = std::max(span.begin_nanoseconds, end);
    span.end_nanoseconds = std::max(span.end_nanoseconds, span.begin_nanoseconds);
    end = span.end_nanoseconds;
  }
  return spans;
}

}  // namespace ringwood
