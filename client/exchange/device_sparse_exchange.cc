#include "client/exchange/device_sparse_exchange.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"

namespace ringwood {
namespace {

constexpr double kWatchSeconds = 0.1;  // between two questions for the device's health

}  // namespace

DeviceSparseExchange::DeviceSparseExchange(Climb climb, std::vector<const Tensor*> tensors,
                                           std::unique_ptr<DeviceGroup> group, Loop* compute)
    : all_reduce_(std::move(climb)),
      tensors_(std::move(tensors)),
      one_stream_(ShareAStream(tensors_)),
      group_(std::move(group)),
      compute_(compute) {}

DeviceSparseExchange::~DeviceSparseExchange() { Cancel(); }

// The gradients' addresses are read each time: tensors may move between two rounds.
void DeviceSparseExchange::Pack(float weight, std::function<void(Status)> packed) {
  RW_CHECK(!awaited_->answer);
  std::vector<DeviceGroup::Gradient> gradients;
  for (const Tensor* tensor : tensors_) {
    gradients.push_back({tensor->gradient().data(), tensor->device->stream});
  }
  pending_ = true;
  awaited_->deadline = Now() + Seconds(kLongestWaitSeconds);
  awaited_->answer = [this, packed](const Status& status) { Answer(status, packed); };
  const Status enqueued =
      group_->Accumulate(gradients, weight, [compute = compute_, awaited = awaited_] {
        // One a group and round: it has its place in a full mailbox. A loop that stops runs nothing
        // any more, and what is freed then is host memory.
        (void)compute->PostReserved([awaited] {
          if (auto answer = std::exchange(awaited->answer, nullptr)) answer(OkStatus());
        });
      });
  if (!enqueued.ok()) {
    awaited_->answer = nullptr;
    return Answer(enqueued, packed);
  }
  Watch();
}

void DeviceSparseExchange::Watch() {
  if (std::exchange(awaited_->watched, true)) return;
  compute_->After(Seconds(kWatchSeconds), [this, awaited = awaited_] {
    awaited->watched = false;
    if (!awaited->answer) return;  // answered, or cancelled: then `this` may be gone
    Status status = group_->Health();
    if (status.ok() && Now() > awaited->deadline) {
      status =
          TimedOut(absl::StrFormat("the selection did not end in %.0f s", kLongestWaitSeconds));
    }
    if (status.ok()) return Watch();
    std::exchange(awaited->answer, nullptr)(status);
  });
}

void DeviceSparseExchange::Answer(const Status& status, const std::function<void(Status)>& packed) {
  if (!status.ok()) {
    return packed(Annotate(status, absl::StrFormat("device %d", tensors_.front()->device->index)));
  }
  all_reduce_.Clear();
  for (size_t t = 0; t < tensors_.size(); ++t) {
    all_reduce_.Add(tensors_[t]->spec.elements, group_->pick_index(t), group_->pick_value(t));
  }
  all_reduce_.Round([this](size_t t, std::span<const float> sent) { group_->SetSent(t, sent); });
  packed(OkStatus());
}

void DeviceSparseExchange::Apply(double total_weight) {
  Status applied = group_->Commit(all_reduce_.accepted());
  if (applied.ok()) applied = group_->Scatter(all_reduce_.result(), total_weight);
  // The step is committed: the others have applied it. A device that takes no work any more leaves
  // no way to follow them.
  if (!applied.ok()) Log(LogLevel::kError, Message(applied));
  RW_CHECK(applied.ok());
  pending_ = false;
}

void DeviceSparseExchange::Abort() {
  if (!pending_) return;
  Cancel();
  group_->Abort();
  pending_ = false;
}

void DeviceSparseExchange::Cancel() {
  const Status cancelled = compute_->Call(
      [awaited = awaited_] {
        awaited->answer = nullptr;
        return OkStatus();
      },
      Seconds(kLongestWaitSeconds));
  RW_CHECK(cancelled.ok());
}

}  // namespace ringwood
