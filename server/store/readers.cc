#include "server/store/readers.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

CheckpointId LeastOf(const v1::HoldRequest& wish) { return {wish.epoch(), wish.step()}; }

std::optional<CheckpointId> NewestFor(const v1::HoldRequest& wish,
                                      const std::vector<Kept>& complete) {
  std::optional<CheckpointId> newest;
  for (const Kept& kept : complete) {
    if (kept.bad || kept.unread || (wish.job() != 0 && kept.job != wish.job())) continue;
    if (kept.id >= LeastOf(wish) && (!newest || kept.id > *newest)) newest = kept.id;
  }
  return newest;
}

}  // namespace

Status Readers::Enter(uint64_t reader, const v1::HoldRequest& wish, TimePoint now) {
  if (waiting_.size() + holding_.size() >= kMaxReaders) {
    return Exhausted(
        absl::StrFormat("%d readers are at this store already: try again", kMaxReaders));
  }
  // A time that is not a number is none.
  const double asked = std::min(wish.timeout_seconds(), kMaxWaitSeconds);
  const double seconds = asked > 0 ? asked : 0;
  waiting_[reader] = {wish, seconds, now + Seconds(seconds)};
  return OkStatus();
}

void Readers::Leave(uint64_t reader) {
  waiting_.erase(reader);
  holding_.erase(reader);
  const std::set<CheckpointId> still = held();
  std::erase_if(read_, [&](const auto& each) { return !still.contains(each.first); });
}

std::vector<Readers::Answer> Readers::Look(const std::vector<Kept>& complete,
                                           const std::function<Making(const CheckpointId&)>& making,
                                           TimePoint now) {
  std::vector<Answer> answers;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto answer = AnswerTo(it->second, NewestFor(it->second.wish, complete), making, now);
    if (!answer) {
      ++it;
      continue;
    }
    if (answer->ok()) {
      holding_[it->first] = **answer;
      read_[**answer] = now;
    }
    answers.push_back({it->first, *answer});
    it = waiting_.erase(it);
  }
  return answers;
}

std::optional<StatusOr<CheckpointId>> Readers::AnswerTo(
    const Waiting& waiting, const std::optional<CheckpointId>& newest,
    const std::function<Making(const CheckpointId&)>& making, TimePoint now) const {
  if (newest && (read_.contains(*newest) || read_.size() < kMaxHeld)) return *newest;
  const CheckpointId least = LeastOf(waiting.wish);
  const bool overdue = waiting.deadline <= now;
  if (newest) {
    if (!overdue) return std::nullopt;
    return Exhausted(
        absl::StrFormat("%d checkpoints are being read, and no more are held at once: try again "
                        "when one of those readers is ready",
                        kMaxHeld));
  }
  if (least == CheckpointId{}) {
    const std::string of = absl::StrFormat(" of job %016x", waiting.wish.job());
    return NotFound("the store has no complete checkpoint" + (waiting.wish.job() ? of : ""));
  }
  const Making made = making(least);
  const std::string what = absl::StrFormat("the checkpoint of step %d", least.step);
  if (!made.failed.ok()) return Annotate(made.failed, what + " failed");
  if (!overdue) return std::nullopt;
  return TimedOut(
      absl::StrFormat("%s did not come within %g s: %s", what, waiting.seconds, made.waits_for));
}

void Readers::Read(const CheckpointId& id, TimePoint now) {
  if (const auto held = read_.find(id); held != read_.end()) held->second = now;
}

std::vector<uint64_t> Readers::TakeIdle(TimePoint now) {
  std::vector<uint64_t> idle;
  for (const auto& [reader, id] : holding_) {
    if (now - read_.at(id) > Seconds(kIdleSeconds)) idle.push_back(reader);
  }
  for (const uint64_t reader : idle) Leave(reader);
  return idle;
}

std::set<CheckpointId> Readers::held() const {
  std::set<CheckpointId> held;
  for (const auto& [reader, id] : holding_) held.insert(id);
  return held;
}

}  // namespace ringwood
