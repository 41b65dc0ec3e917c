#include "client/checkpoint/checkpointer.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"

namespace ringwood {
namespace {

// For a stripe to become durable, and then for the slowest rank's: a bound against a store that
// hangs, far above what a disk needs for an arena.
constexpr double kSaveSeconds = 1800;
constexpr double kAwaitSeconds = 600;

Status Stuck() { return TimedOut("the checkpoint before it does not end"); }

}  // namespace

Checkpointer::Checkpointer(StoreClient* store, const CheckpointLimits& limits, Told ended)
    : store_(store),
      bytes_per_second_(limits.bytes_per_second),
      ended_(std::move(ended)),
      arena_(limits.arena_bytes) {}

Checkpointer::~Checkpointer() {
  store_->Cancel();
  absl::MutexLock lock(&mutex_);
  ending_ = true;
}

CheckpointProgress Checkpointer::progress() {
  absl::MutexLock lock(&mutex_);
  CheckpointProgress progress = progress_;
  progress.under_way = busy_;
  return progress;
}

void Checkpointer::Sent(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (bytes <= progress_.sent) sending_since_ = Now();  // once more
  progress_.sent = bytes;
  if (bytes_per_second_ <= 0) return;
  const TimePoint due = sending_since_ + Seconds(static_cast<double>(bytes) / bytes_per_second_);
  mutex_.AwaitWithTimeout(absl::Condition(&ending_), absl::Seconds(ToSeconds(due - Now())));
}

Status Checkpointer::Begin(const StripeName& stripe, const std::vector<Item>& items) {
  {
    absl::MutexLock lock(&mutex_);
    AwaitIdle();
    RW_RETURN_IF_ERROR(interrupted_);
    if (busy_) {  // the arena is still the upload's
      Ended(stripe, Stuck());
      return OkStatus();
    }
  }
  const Status filled =
      arena_.Fill(items, static_cast<int>(stripe.rank), static_cast<int>(stripe.world));
  if (!filled.ok() && filled.code() != StatusCode::kResourceExhausted) return filled;
  absl::MutexLock lock(&mutex_);
  if (!filled.ok()) {
    Ended(stripe, filled);
    return OkStatus();
  }
  progress_.step = stripe.step;
  progress_.bytes = arena_.bytes();
  progress_.sent = 0;
  sending_since_ = Now();
  progress_.arena_bytes = arena_.capacity();
  busy_ = loop_.Post([this, stripe, begun = Now()] {
    arena_.Complete();
    const Status status =
        store_->Keep(stripe, arena_, Seconds(kSaveSeconds), Seconds(kAwaitSeconds),
                     [&](uint64_t bytes) { Sent(bytes); });
    absl::MutexLock lock(&mutex_);
    if (status.ok()) progress_.seconds = ToSeconds(Now() - begun);
    busy_ = false;
    Ended(stripe, status);
  });
  if (!busy_) Ended(stripe, Internal("upload queue full"));
  return OkStatus();
}

void Checkpointer::Ended(const StripeName& stripe, const Status& status) {
  last_ = Annotate(status, absl::StrFormat("checkpoint of step %d", stripe.step));
  if (status.ok()) ++progress_.completed;
  // The end of the epoch speaks for itself.
  if (ended_ && (status.ok() || interrupted_.ok())) {
    ended_(stripe.step, status.ok(), Seconds(progress_.seconds));
  }
  if (status.ok() || !interrupted_.ok()) return;
  ++progress_.failed;
  Log(LogLevel::kError, "checkpoint_failed",
      absl::StrFormat("%s (%d failed so far, training continues)", Message(last_),
                      progress_.failed));
}

void Checkpointer::AwaitIdle() {
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !busy_ || !interrupted_.ok();
  };
  mutex_.AwaitWithTimeout(absl::Condition(&idle), absl::Seconds(kSaveSeconds + kAwaitSeconds));
}

std::optional<Status> Checkpointer::Wait() {
  absl::MutexLock lock(&mutex_);
  AwaitIdle();
  if (!busy_) return std::exchange(last_, OkStatus());
  return interrupted_.ok() ? std::optional(Stuck()) : std::nullopt;
}

void Checkpointer::Interrupt(const Status& why) {
  absl::MutexLock lock(&mutex_);
  if (interrupted_.ok()) interrupted_ = why;
}

void Checkpointer::Resume() {
  absl::MutexLock lock(&mutex_);
  interrupted_ = OkStatus();
}

}  // namespace ringwood
