#include "server/updates/chain.h"

#include <algorithm>
#include <limits>

namespace ringwood {
namespace {

constexpr size_t kNone = std::numeric_limits<size_t>::max();

}  // namespace

// The newest span is asked first: where two meet, both have the state, and the later one is the way
// that was taken.
size_t Chain::SpanOf(const CheckpointId& id) const {
  uint64_t next_origin = std::numeric_limits<uint64_t>::max();  // of the history after the span's
  for (size_t i = spans_.size(); i-- > 0;) {
    const Span& span = spans_[i];
    if (i + 1 < spans_.size() && spans_[i + 1].beginning.origin != span.beginning.origin) {
      next_origin = spans_[i + 1].beginning.origin;
    }
    const bool within = span.from <= id.step && id.step <= span.last();
    const bool of_history = span.beginning.origin <= id.epoch && id.epoch < next_origin;
    const bool its_start = span.beginning.checkpoint == id;
    if (within && (of_history || its_start)) return i;
  }
  return kNone;
}

// What was logged beyond the state that a history begins with is given up; all, where nothing that
// was logged leads to that state.
void Chain::Begin(const Beginning& beginning, uint64_t sequence) {
  Span span{beginning, sequence};
  span.from = beginning.step;
  if (!beginning.gap) {
    std::erase_if(spans_, [&](const Span& old) { return old.from > beginning.step; });
    for (Span& old : spans_) {
      old.rounds.resize(std::min(old.rounds.size(), beginning.step - old.from));
    }
    const size_t start = SpanOf(beginning.checkpoint);
    span.joined = start != kNone && spans_.back().last() == beginning.step;
    for (size_t i = start; span.joined && i + 1 < spans_.size(); ++i) {
      span.joined = spans_[i + 1].joined;
    }
    if (!span.joined) spans_.clear();
  }
  spans_.push_back(std::move(span));
}

std::optional<uint64_t> Chain::last() const {
  return spans_.empty() ? std::nullopt : std::optional(spans_.back().last());
}

uint64_t Chain::origin() const { return spans_.empty() ? 0 : spans_.back().beginning.origin; }

bool Chain::Add(const LoggedUpdate& round) {
  if (spans_.empty()) return false;
  Span& span = spans_.back();
  if (round.step <= span.from || round.step > span.last() + 1) return false;
  span.rounds.resize(round.step - 1 - span.from);
  span.rounds.push_back(round);
  return true;
}

std::vector<LoggedUpdate> Chain::After(const CheckpointId& id) const {
  std::vector<LoggedUpdate> rounds;
  const size_t start = SpanOf(id);
  for (size_t i = start; i < spans_.size() && (i == start || spans_[i].joined); ++i) {
    for (const LoggedUpdate& round : spans_[i].rounds) {
      if (round.step > id.step) rounds.push_back(round);
    }
  }
  return rounds;
}

std::vector<LoggedUpdate> Chain::Path() const {
  size_t first = spans_.size();
  while (first > 0 && (first == spans_.size() || spans_[first].joined)) --first;
  std::vector<LoggedUpdate> rounds;
  for (size_t i = first; i < spans_.size(); ++i) {
    rounds.insert(rounds.end(), spans_[i].rounds.begin(), spans_[i].rounds.end());
  }
  return rounds;
}

uint64_t Chain::FirstNeeded(const std::vector<CheckpointId>& kept) const {
  if (spans_.empty()) return 0;
  const Span& present = spans_.back();
  uint64_t first = present.rounds.empty() ? present.sequence : present.rounds.back().sequence;
  for (const CheckpointId& id : kept) {
    const size_t i = SpanOf(id);
    if (i == kNone) continue;
    const Span& span = spans_[i];
    // Without rounds after it the span's own beginning says that the checkpoint is where it starts.
    const uint64_t needed =
        id.step > span.from ? span.rounds[id.step - span.from - 1].sequence : span.sequence;
    first = std::min(first, needed);
  }
  return first;
}

void Chain::Forget(uint64_t sequence) {
  while (spans_.size() > 1 && spans_[1].sequence <= sequence) {
    spans_.erase(spans_.begin());
    spans_.front().joined = false;
  }
  if (spans_.empty()) return;
  Span& span = spans_.front();
  const auto kept = std::find_if(span.rounds.begin(), span.rounds.end(),
                                 [&](const LoggedUpdate& r) { return r.sequence >= sequence; });
  if (kept != span.rounds.begin()) span.from = (kept - 1)->step;
  span.rounds.erase(span.rounds.begin(), kept);
}

std::optional<Chain::First> Chain::first() const {
  if (spans_.empty()) return std::nullopt;
  First first{spans_.front().beginning, spans_.front().sequence};
  first.beginning.step = spans_.front().from;
  return first;
}

uint64_t Chain::bytes() const {
  uint64_t bytes = 0;
  for (const Span& span : spans_) {
    for (const LoggedUpdate& round : span.rounds) bytes += round.bytes;
  }
  return bytes;
}

}  // namespace ringwood
