#include "client/checkpointer.h"

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

// For a stripe to become durable, and then for the slowest rank's: a bound against a store that
// hangs, far above what a disk needs for an arena.
constexpr double kSaveSeconds = 1800;
constexpr double kAwaitSeconds = 600;

}  // namespace

Checkpointer::Checkpointer(StoreClient* store) : store_(store) {}

Checkpointer::~Checkpointer() { store_->Cancel(); }

Status Checkpointer::Begin(const StripeName& stripe, const std::vector<Item>& items) {
  const Status before = Wait();
  RW_RETURN_IF_ERROR(
      arena_.Fill(items, static_cast<int>(stripe.rank), static_cast<int>(stripe.world)));
  {
    absl::MutexLock lock(&mutex_);
    busy_ = true;
  }
  const bool posted = loop_.Post([this, stripe] {
    Status status = store_->Save(stripe, arena_, Seconds(kSaveSeconds));
    if (status.ok()) status = store_->Await(stripe.step, Seconds(kAwaitSeconds));
    absl::MutexLock lock(&mutex_);
    busy_ = false;
    last_ = Annotate(status,
                     absl::StrFormat("rank %d: checkpoint of step %d", stripe.rank, stripe.step));
  });
  if (!posted) {
    absl::MutexLock lock(&mutex_);
    busy_ = false;
    return Internal("the upload thread takes no work");
  }
  return before;
}

Status Checkpointer::Wait() {
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !busy_; };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&idle),
                               absl::Seconds(kSaveSeconds + kAwaitSeconds))) {
    return TimedOut("the checkpoint under way does not end");
  }
  Status last = last_;
  last_ = OkStatus();
  return last;
}

}  // namespace ringwood
