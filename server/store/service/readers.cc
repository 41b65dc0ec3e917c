#include "server/store/service/readers.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/units.h"

namespace ringwood {
namespace {

CheckpointId LeastOf(const v1::HoldRequest& wish) { return {wish.epoch(), wish.step()}; }

}  // namespace

Status RemovedWhileRead(const CheckpointId& id) {
  return Aborted(absl::StrFormat(
      "the checkpoint of step %d (epoch %d) was removed while it was read, for newer ones: take "
      "the newest",
      id.step, id.epoch));
}

Readers::Newest Readers::NewestFor(const v1::HoldRequest& wish, const std::vector<Kept>& complete,
                                   const std::optional<CheckpointId>& last) {
  Newest newest;
  for (const Kept& kept : complete) {
    if (kept.bad || (wish.job() != 0 && kept.job != wish.job())) continue;
    if (wish.exactly() && kept.id != LeastOf(wish)) continue;
    if (kept.id < LeastOf(wish) || (kept.unread && last && kept.id > *last)) continue;
    auto& of_its_kind = kept.unread ? newest.unread : newest.good;
    of_its_kind = std::max(of_its_kind, std::optional(kept.id));
  }
  if (newest.unread < newest.good) newest.unread.reset();
  return newest;
}

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
    Waiting& waiting = it->second;
    const Newest newest = NewestFor(waiting.wish, complete, waiting.unread);
    if (!waiting.unread) waiting.unread = newest.unread.value_or(CheckpointId{});
    const auto answer = AnswerTo(waiting, newest, making, now);
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
    const Waiting& waiting, const Newest& found,
    const std::function<Making(const CheckpointId&)>& making, TimePoint now) const {
  const CheckpointId least = LeastOf(waiting.wish);
  const bool overdue = waiting.deadline <= now;
  const bool is_read_back = found.unread && least == CheckpointId{};
  if (is_read_back && !overdue) return std::nullopt;
  const std::optional<CheckpointId>& newest = found.good;
  if (newest && (read_.contains(*newest) || read_.size() < kMaxHeld)) return *newest;
  if (newest) {
    if (!overdue) return std::nullopt;
    return Exhausted(
        absl::StrFormat("%d checkpoints are being read, and no more are held at once: try again "
                        "when one of those readers is ready",
                        kMaxHeld));
  }
  if (is_read_back) {
    return TimedOut(absl::StrFormat(
        "the store's only checkpoint, of step %d, was not read back from the disk within %s: "
        "wait longer",
        found.unread->step, FormatSeconds(waiting.seconds)));
  }
  if (least == CheckpointId{}) {
    const std::string of = absl::StrFormat(" of job %016x", waiting.wish.job());
    return NotFound("the store has no complete checkpoint" + (waiting.wish.job() ? of : ""));
  }
  if (waiting.wish.exactly() && !found.unread) return RemovedWhileRead(least);
  const Making made = making(least);
  const std::string what = absl::StrFormat("the checkpoint of step %d", least.step);
  if (!made.failed.ok()) return Annotate(made.failed, what + " failed");
  if (!overdue) return std::nullopt;
  return TimedOut(absl::StrFormat("%s did not come within %s: %s", what,
                                  FormatSeconds(waiting.seconds), made.waits_for));
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
