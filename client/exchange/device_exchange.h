// A dense group of device tensors: packed on the device, all-reduced by the device's ring out of
// place, averages written into the gradients on the trainer's own streams. Only the vote waits for
// the device, since it needs the sum's digest.
//
// The wire is the ring's own (fp32): nothing is rounded. Residuals of tensors that were sparse
// before are in the bucket and are added to the first sum that is committed.
#pragma once

#include <memory>
#include <vector>

#include "client/exchange/exchange.h"
#include "client/exchange/tensor.h"
#include "dense/cuda/device_bucket.h"
#include "dense/cuda/device_ring.h"

namespace ringwood {

class DeviceExchange : public Exchange {
 public:
  // `tensors` in the group's order, all on the bucket's device; they and the ring outlive this.
  // The ring is used on the net loop only.
  DeviceExchange(const Place& place, uint32_t group, std::vector<const Tensor*> tensors,
                 std::unique_ptr<DeviceBucket> bucket, DeviceRing* ring);

  Status Arrive(size_t tensor) override { return bucket_->Mark(tensors_[tensor]->device->stream); }
  void Pack(float weight, std::function<void(Status)> packed) override {
    packed(bucket_->Pack(Parts(), weight));
  }
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done) override;
  void Apply(double total_weight) override;
  void Abort() override {}  // gradients were only read
  uint64_t digest() const override { return result_.digest; }
  uint64_t sent_bytes() const override { return result_.sent_bytes; }
  bool non_finite() const override { return non_finite_; }
  bool checked_when_packed() const override { return false; }

 private:
  std::vector<DeviceBucket::Part> Parts() const;

  const Place place_;
  const uint32_t group_;
  const std::vector<const Tensor*> tensors_;
  const std::unique_ptr<DeviceBucket> bucket_;
  DeviceRing* const ring_;
  AllReduceResult result_;
  bool non_finite_ = false;
};

}  // namespace ringwood
