#include "server/store/service/awaits.h"

#include <algorithm>
#include <utility>

#include "proto/await_reason.h"

namespace ringwood {
namespace {

// An Await that names a longer time waits this long and asks again.
constexpr double kMaxAwaitSeconds = 3600;
constexpr double kLookSeconds = 0.1;  // how late an Await may end

}  // namespace

void Awaits::Enter(uint64_t id, const v1::AwaitRequest& request, Call* call,
                   const Outcome& outcome) {
  if (waiters_.size() >= most_) return call->Answer(Exhausted("too many wait for the store"));
  // A timeout that is not a number is none.
  const double seconds = std::min(request.timeout_seconds(), kMaxAwaitSeconds);
  const TimePoint deadline = Now() + Seconds(seconds > 0 ? seconds : 0);
  waiters_[id] = {request.epoch(), request.step(), deadline, call};
  Answer(outcome);
  if (waiters_.size() == 1) EndOverdue();
}

// Nothing of it stays.
void Awaits::Leave(uint64_t id) {
  auto waiter = waiters_.extract(id);
  if (!waiter.empty()) waiter.mapped().call->Answer(Aborted("the caller went away"));
}

void Awaits::Answer(const Outcome& outcome) {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    const std::optional<Status> ended = outcome(it->second.epoch, it->second.step);
    if (!ended) {
      ++it;
      continue;
    }
    v1::AwaitResponse answer;
    answer.set_complete(ended->ok());
    answer.set_reason(Message(*ended));
    it->second.call->Answer(std::move(answer));
    it = waiters_.erase(it);
  }
}

void Awaits::Close(const Status& why) {
  for (auto& [id, waiter] : std::exchange(waiters_, {})) waiter.call->Answer(why);
}

// Looks again as long as anyone waits.
void Awaits::EndOverdue() {
  const TimePoint now = Now();
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (it->second.deadline > now) {
      ++it;
      continue;
    }
    v1::AwaitResponse answer;
    answer.set_reason(kStripesMissing);
    it->second.call->Answer(std::move(answer));
    it = waiters_.erase(it);
  }
  if (waiters_.empty() || std::exchange(looking_, true)) return;
  loop_->After(Seconds(kLookSeconds), [this] {
    looking_ = false;
    EndOverdue();
  });
}

}  // namespace ringwood
