#include "client/exchange/device_exchange.h"

#include <bit>
#include <cfloat>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace ringwood {

DeviceExchange::DeviceExchange(const Place& place, uint32_t group,
                               std::vector<const Tensor*> tensors,
                               std::unique_ptr<DeviceBucket> bucket, DeviceRing* ring)
    : place_(place),
      group_(group),
      tensors_(std::move(tensors)),
      bucket_(std::move(bucket)),
      ring_(ring) {}

// Rebuilt each time: tensors may move between two rounds.
std::vector<DeviceBucket::Part> DeviceExchange::Parts() const {
  std::vector<DeviceBucket::Part> parts;
  for (const Tensor* tensor : tensors_) {
    parts.push_back({tensor->data, tensor->spec.elements, tensor->device->stream});
  }
  return parts;
}

void DeviceExchange::Start(Transport*, uint64_t round, std::function<void(Status)> done) {
  DeviceReduction reduction;
  reduction.round = round;
  reduction.group = group_;
  reduction.input = bucket_->input();
  reduction.output = bucket_->output();
  reduction.count = bucket_->elements();
  reduction.producer = bucket_->stream();
  ring_->AllReduce(reduction, [this, done = std::move(done)](StatusOr<AllReduceResult> result) {
    if (result.ok()) {
      result_ = *result;
      // The ring came after the packing, so this is known by now.
      const float limit = FLT_MAX / static_cast<float>(place_.world);
      non_finite_ = bucket_->largest() > std::bit_cast<uint32_t>(limit);
    }
    done(result.status());
  });
}

void DeviceExchange::Apply(double total_weight) {
  const Status unpacked = bucket_->Unpack(Parts(), total_weight);
  // The step is committed: the others have applied it. A device that takes no work any more leaves
  // no way to follow them.
  if (!unpacked.ok()) Log(LogLevel::kError, Message(unpacked));
  RW_CHECK(unpacked.ok());
  bucket_->Forgive();
}

}  // namespace ringwood
