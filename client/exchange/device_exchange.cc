#include "client/exchange/device_exchange.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "client/exchange/flat_places.h"
#include "client/exchange/scale.h"

namespace ringwood {

DeviceExchange::DeviceExchange(const Place& place, uint32_t group,
                               std::vector<const Tensor*> tensors, std::vector<size_t> places,
                               std::unique_ptr<DeviceBucket> bucket, DeviceRing* ring)
    : place_(place),
      group_(group),
      tensors_(std::move(tensors)),
      one_stream_(ShareAStream(tensors_)),
      places_(std::move(places)),
      bucket_(std::move(bucket)),
      ring_(ring) {}

// Rebuilt each time: tensors may move between two rounds.
std::vector<DeviceBucket::Part> DeviceExchange::Parts() const {
  std::vector<DeviceBucket::Part> parts;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const Tensor& tensor = *tensors_[t];
    parts.push_back({tensor.data, tensor.spec.elements, tensor.device->stream, places_[t]});
  }
  return parts;
}

void DeviceExchange::Start(Transport*, uint64_t round, std::function<void(Status)> done) {
  DeviceReduction reduction;
  reduction.round = round;
  reduction.group = group_;
  reduction.type = bucket_->type();
  reduction.input = bucket_->input();
  reduction.output = bucket_->output();
  reduction.count = bucket_->elements();
  reduction.producer = bucket_->stream();
  reduction.codes = bucket_->codes();
  ring_->AllReduce(reduction, [this, done = std::move(done)](StatusOr<AllReduceResult> result) {
    if (result.ok()) {
      result_ = *result;
      // The ring came after the packing, so this is known by now.
      const bool exact = bucket_->type() == DataType::kFloat32 && !coded();
      const float limit = LargestSummand(place_.world * (exact ? 1 : kCodedShare));
      non_finite_ = bucket_->largest() > std::bit_cast<uint32_t>(limit) || result->non_finite;
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
  bucket_->Commit();
  copies_ = {};
}

// All tensors' at once: a checkpoint asks for one after the other.
StatusOr<std::span<const float>> DeviceExchange::error(size_t tensor) const {
  if (!coded()) return std::span<const float>();
  if (copies_.error.size() == 0) {
    Buffer<float> error(bucket_->elements());
    RW_RETURN_IF_ERROR(bucket_->ReadError(0, error.span()));
    copies_.error = std::move(error);
  }
  return std::as_const(copies_.error)
      .span()
      .subspan(places_[tensor], tensors_[tensor]->spec.elements);
}

StatusOr<std::span<const BlockReach>> DeviceExchange::reach(size_t tensor) const {
  if (!coded()) return std::span<const BlockReach>();
  if (copies_.reach.size() == 0) {
    Buffer<BlockReach> reach(LatticeBlocks(bucket_->elements()));
    RW_RETURN_IF_ERROR(bucket_->ReadReach(0, reach.span()));
    copies_.reach = std::move(reach);
  }
  return std::as_const(copies_.reach)
      .span()
      .subspan(places_[tensor] / kLatticeBlock, LatticeBlocks(tensors_[tensor]->spec.elements));
}

}  // namespace ringwood
