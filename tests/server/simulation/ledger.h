// What was promised, checked while it happens. Knows all that any process ever did, the dead ones
// too.
//
// A history begins with an epoch whose base is a checkpoint or nothing (a declared rollback);
// epochs whose base is with members continue it. Within a history
//   - whoever applies a round applies the same update, and has the same state after it;
//   - nothing that was applied is lost: an epoch begins with at least that;
//   - nothing is applied in an epoch that the next one's base leaves out.
#pragma once

#include <map>
#include <string>

#include "absl/strings/str_format.h"
#include "ringwood/v1/state.pb.h"

namespace ringwood::simulation {

class Ledger {
 public:
  bool ok() const { return violation_.empty(); }
  const std::string& violation() const { return violation_; }  // the first
  template <typename... Parts>
  void Expect(bool holds, const absl::FormatSpec<Parts...>& format, const Parts&... parts) {
    if (!holds && ok()) violation_ = absl::StrFormat(format, parts...);
  }

  // `record` is on disk, after `before`.
  void Decided(const v1::EpochRecord& before, const v1::EpochRecord& record) {
    const uint64_t epoch = record.epoch();
    Expect(epochs_.empty() || epoch > epochs_.rbegin()->first, "epoch %d is decided after epoch %d",
           epoch, epochs_.empty() ? 0 : epochs_.rbegin()->first);
    epochs_[epoch] = {epoch, kNoEnd, record};
    if (!record.from_members()) return;
    const uint64_t history = epochs_[before.epoch()].history;
    epochs_[epoch].history = history;
    epochs_[before.epoch()].end = record.base_step();
    const auto newest = newest_.find(history);
    Expect(newest == newest_.end() || newest->second <= record.base_step(),
           "epoch %d begins after step %d, but step %d was applied", epoch, record.base_step(),
           newest == newest_.end() ? 0 : newest->second);
  }
  const v1::EpochRecord* Record(uint64_t epoch) const {
    const auto found = epochs_.find(epoch);
    return found == epochs_.end() ? nullptr : &found->second.record;
  }

  // A process has the state `digest`, of all up to `round`, in `epoch`.
  void Has(int who, uint64_t epoch, uint64_t round, uint64_t digest) {
    Step& step = steps_[{epochs_[epoch].history, round}];
    if (step.state == 0) step.state = digest;
    Expect(step.state == digest,
           "process %d is in another state than the others after step %d of epoch %d", who, round,
           epoch);
  }
  // A process applied `update` of (epoch, round), and is in state `digest` now.
  void Applied(int who, uint64_t epoch, uint64_t round, uint64_t update, uint64_t digest) {
    const Decision& decision = epochs_[epoch];
    Expect(round <= decision.end,
           "process %d applies step %d of epoch %d, which was left out at step %d", who, round,
           epoch, decision.end);
    uint64_t& newest = newest_[decision.history];
    newest = std::max(newest, round);
    Step& step = steps_[{decision.history, round}];
    if (step.update == 0) step.update = update;
    Expect(step.update == update,
           "process %d applies another update of step %d than the others, in epoch %d", who, round,
           epoch);
    Has(who, epoch, round, digest);
  }

  void Voted(uint64_t epoch, uint64_t round, uint32_t node) {
    votes_[{epoch, round}] |= 1u << node;
  }
  void Committed(int who, uint64_t epoch, uint64_t round, uint32_t world) {
    Expect(votes_[{epoch, round}] + 1 == 1u << world,
           "process %d hears of a commit of (%d, %d) without all votes", who, epoch, round);
  }

 private:
  static constexpr uint64_t kNoEnd = ~uint64_t{0};
  struct Decision {
    uint64_t history = 0;   // named by its first epoch
    uint64_t end = kNoEnd;  // the last step that belongs to the history
    v1::EpochRecord record;
  };
  struct Step {
    uint64_t update = 0, state = 0;  // 0: not known yet
  };

  std::string violation_;
  std::map<uint64_t, Decision> epochs_;
  std::map<uint64_t, uint64_t> newest_;  // by history: the newest step that anybody applied
  std::map<std::pair<uint64_t, uint64_t>, Step> steps_;      // by history and round
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> votes_;  // by epoch and round: nodes
};

}  // namespace ringwood::simulation
