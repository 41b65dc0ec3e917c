#include "server/coordinator/gathering/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

struct Base {
  uint64_t epoch = 0;
  uint64_t step = 0;
};

Base BaseOf(const v1::EpochRecord& record) { return {record.base_epoch(), record.base_step()}; }

// Took part in `last` after it had begun.
bool WasActive(const v1::EpochRecord& last, const Returned& worker) {
  return worker.survivor && worker.held && worker.held->epoch() == last.epoch();
}

// A process that was last active before `last` and has what `last` started from.
bool HasBaseOf(const v1::EpochRecord& last, const v1::Held& held) {
  const Base base = BaseOf(last);
  if (held.epoch() == base.epoch) {
    return held.round() == base.step || (held.round() + 1 == base.step && held.prepared());
  }
  // Epochs in between started from the same base: else it would have got a newer name.
  return held.epoch() > base.epoch && held.epoch() >= last.origin() &&
         held.epoch() < last.epoch() && held.round() == base.step;
}

bool Holds(const v1::EpochRecord& last, const Returned& worker, Base base) {
  if (!worker.held || worker.held->receiving()) return false;
  const v1::Held& held = *worker.held;
  if (WasActive(last, worker)) {
    return held.round() == base.step ||
           (base.epoch == last.epoch() && held.round() + 1 == base.step && held.prepared());
  }
  const Base before = BaseOf(last);
  return base.epoch == before.epoch && base.step == before.step && HasBaseOf(last, held);
}

// Every survivor has `round` and the same result of the next one. Results that differ were never
// committed.
bool AllPrepared(const v1::EpochRecord& last, const std::vector<Returned>& workers,
                 uint64_t round) {
  std::optional<uint64_t> digest;
  for (const Returned& worker : workers) {
    if (!worker.survivor) continue;
    if (!WasActive(last, worker) || worker.held->round() != round || !worker.held->prepared()) {
      return false;
    }
    if (digest.value_or(worker.held->digest()) != worker.held->digest()) return false;
    digest = worker.held->digest();
  }
  return true;
}

Recovery FromMembers(const v1::EpochRecord& last, const std::vector<Returned>& workers, Base base,
                     std::string why) {
  Recovery recovery{true, base.epoch, base.step, {}, std::move(why)};
  for (size_t w = 0; w < workers.size(); ++w) {
    if (Holds(last, workers[w], base)) recovery.holders.push_back(w);
  }
  if (!recovery.holders.empty()) return recovery;
  return {false, 0, 0, {}, absl::StrFormat("no process has the state of step %d", base.step)};
}

}  // namespace

Recovery Recover(const v1::EpochRecord& last, const std::vector<Returned>& workers) {
  bool any_active = false, any_survivor = false;
  uint64_t newest = last.base_step();
  for (const Returned& worker : workers) {
    if (worker.held && worker.held->epoch() > last.epoch()) {
      return {false, 0, 0, {}, absl::StrFormat("epoch %d is not on disk", worker.held->epoch())};
    }
    any_survivor |= worker.survivor;
    if (!WasActive(last, worker)) continue;
    any_active = true;
    newest = std::max<uint64_t>(newest, worker.held->round());
  }
  if (!any_survivor) return {false, 0, 0, {}, "no process of the last epoch is left"};
  if (!any_active) {
    return FromMembers(last, workers, BaseOf(last),
                       absl::StrFormat("epoch %d had not begun anywhere", last.epoch()));
  }
  if (AllPrepared(last, workers, newest)) {
    return FromMembers(last, workers, {last.epoch(), newest + 1},
                       absl::StrFormat("all have the result of step %d", newest + 1));
  }
  const Base base = newest > last.base_step() ? Base{last.epoch(), newest} : BaseOf(last);
  return FromMembers(last, workers, base, absl::StrFormat("step %d was not committed", newest + 1));
}

}  // namespace ringwood
