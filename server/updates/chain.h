// Which logged rounds lead from which checkpoint to which state: the update log's decisions, pure.
//
// Rounds are named by (epoch, step), as updates are. A history begins from a checkpoint (or with
// the job), after the rounds that its ranks have replayed, and goes on until another one begins:
//
//   span   origin 1, from 0      1 2 3 … 118 119 120          all processes die
//   span   origin 2, from 120    121 122 …                    checkpoint of 100, and 20 replayed
//
// A round that is logged again replaces itself and all that followed. After a gap, where rounds
// could not be logged, a span begins that only its own checkpoints lead into.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/store/record/checkpoint_key.h"

namespace ringwood {

struct LoggedUpdate {
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint64_t sequence = 0;  // its place in the log
  uint64_t bytes = 0;
  bool operator==(const LoggedUpdate&) const = default;
};

struct Beginning {
  uint64_t origin = 0;           // the epoch in which the history began
  CheckpointId checkpoint = {};  // which it continues; {}: none, a new job
  uint64_t step = 0;             // of the state with which the span begins
  bool gap = false;              // in the same history: nothing logged before leads there
};

class Chain {
 public:
  void Begin(const Beginning& beginning, uint64_t sequence);

  // The step after which a round may be logged next, or again: the last one, and all back to where
  // the span begins. Nothing: no history has begun.
  std::optional<uint64_t> last() const;

  uint64_t origin() const;  // of the present history; 0: none has begun

  // False, and nothing changes: the round does not follow what is logged.
  bool Add(const LoggedUpdate& round);

  // Whether the state of a checkpoint is one that rounds lead to, or may lead on from.
  bool Has(const CheckpointId& id) const { return SpanOf(id) < spans_.size(); }
  // The rounds that lead on from a checkpoint, in order; empty where there is none.
  std::vector<LoggedUpdate> After(const CheckpointId& id) const;
  // Those that lead to the present state, as far back as there is no gap.
  std::vector<LoggedUpdate> Path() const;

  // The place of the first entry that these checkpoints need; what is before it may go, see Forget.
  uint64_t FirstNeeded(const std::vector<CheckpointId>& kept) const;
  // Drops the spans that ended, and the rounds that are, before `sequence`. The first span that is
  // left begins later then, see first().
  void Forget(uint64_t sequence);
  // Entries of the log, from which a chain is made again: how the first span begins, and where.
  struct First {
    Beginning beginning;
    uint64_t sequence = 0;
  };
  std::optional<First> first() const;

  uint64_t bytes() const;  // of all rounds

 private:
  struct Span {
    Beginning beginning;
    uint64_t sequence = 0;
    bool joined = false;  // to the end of the span before
    std::vector<LoggedUpdate> rounds = {};
    uint64_t from = 0;  // the state before the first of `rounds`
    uint64_t last() const { return from + rounds.size(); }
  };
  // The span that a checkpoint's state is in; npos: none.
  size_t SpanOf(const CheckpointId& id) const;

  std::vector<Span> spans_;
};

}  // namespace ringwood
