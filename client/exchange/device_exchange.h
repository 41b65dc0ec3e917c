// A dense group of device tensors: packed on the device, all-reduced by the device's ring out of
// place, averages written into the gradients on the trainer's own streams. Only the vote waits for
// the device, since it needs the sum's digest.
//
// The bucket is float32, or bfloat16 where the tensors are (kOwnType). With codes on the wire (the
// plan's codec) it keeps what this rank rounded away and what blocks reach, as a DenseExchange does
// on the host and with its bits; every other codec of float32 travels as fp32. Residuals of tensors
// that were sparse before, or that an exchange before this one rounded away, are in the bucket and
// are added to the first sum that is committed.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "client/exchange/exchange.h"
#include "client/exchange/tensor.h"
#include "dense/cuda/device_bucket.h"
#include "dense/cuda/device_ring.h"

namespace ringwood {

class DeviceExchange : public Exchange {
 public:
  // `tensors` in the group's order, all on the bucket's device, at `places` of it (PlacesOf); they
  // and the ring outlive this. The ring is used on the net loop only.
  DeviceExchange(const Place& place, uint32_t group, std::vector<const Tensor*> tensors,
                 std::vector<size_t> places, std::unique_ptr<DeviceBucket> bucket,
                 DeviceRing* ring);

  Status Arrive(size_t tensor, bool last) override {
    if (!last && one_stream_) return OkStatus();  // the last mark is behind this one
    return bucket_->Mark(tensors_[tensor]->device->stream);
  }
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
  bool keeps_error() const override { return coded(); }
  StatusOr<std::span<const float>> error(size_t tensor) const override;
  StatusOr<std::span<const BlockReach>> reach(size_t tensor) const override;

 private:
  // What the bucket keeps, on the host; empty until it is asked for. Trainer's thread.
  struct Copies {
    Buffer<float> error;
    Buffer<BlockReach> reach;
  };

  std::vector<DeviceBucket::Part> Parts() const;
  bool coded() const { return bucket_->codes().bits != 0; }

  const Place place_;
  const uint32_t group_;
  const std::vector<const Tensor*> tensors_;
  const bool one_stream_;  // for all of them
  const std::vector<size_t> places_;
  const std::unique_ptr<DeviceBucket> bucket_;
  DeviceRing* const ring_;
  AllReduceResult result_;
  bool non_finite_ = false;
  mutable Copies copies_;
};

}  // namespace ringwood
