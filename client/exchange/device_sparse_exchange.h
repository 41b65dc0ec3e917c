// A sparse group of device tensors: residuals, momenta and selection are on the device. The
// selected entries are copied to the host and sent up the tree as a SparseExchange does; the result
// returns on the tensors' own streams. Entries, residuals and results have the bits of the host's.
//
// No thread waits for the device. Packing ends when it has delivered the entries:
//
//   Pack ──► device selects ──► a thread of CUDA's ──► compute loop: entries gathered, `packed`
//
// A device that fails never calls back: while entries are awaited its health is polled, and there
// is a deadline.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/loop.h"
#include "client/exchange/exchange.h"
#include "client/exchange/tensor.h"
#include "client/exchange/top_k_all_reduce.h"
#include "sparse/cuda/device_group.h"

namespace ringwood {

class DeviceSparseExchange : public Exchange {
 public:
  // `tensors` in the order of `group`, all on its device; they and the compute loop outlive this.
  DeviceSparseExchange(Climb climb, std::vector<const Tensor*> tensors,
                       std::unique_ptr<DeviceGroup> group, Loop* compute);
  ~DeviceSparseExchange() override;  // waits for the device; not on the compute loop

  Status Arrive(size_t tensor, bool last) override {
    if (!last && one_stream_) return OkStatus();  // the last mark is behind this one
    return group_->Mark(tensors_[tensor]->device->stream);
  }
  void Pack(float weight, std::function<void(Status)> packed) override;
  std::optional<Duration> packing() const override { return Seconds(group_->seconds()); }
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done) override {
    all_reduce_.Start(transport, round, std::move(done));
  }
  void Apply(double total_weight) override;
  void Abort() override;
  uint64_t digest() const override { return all_reduce_.digest(); }
  uint64_t sent_bytes() const override { return all_reduce_.sent_bytes(); }
  bool non_finite() const override { return group_->nonfinite() != 0 || !all_reduce_.finite(); }

  // The state kept from round to round. Trainer's thread; these calls wait for the device.
  bool pending() const { return pending_; }  // in a round
  Status ReadResidual(size_t tensor, std::span<float> into) const {
    return group_->ReadResidual(tensor, into);
  }
  Status ReadMomentum(size_t tensor, std::span<float> into) const {  // where it is on
    return group_->ReadMomentum(tensor, into);
  }
  // Releases the memory once all of it was read; only the destructor may follow.
  void Release() { group_.reset(); }

 private:
  // The entries that are awaited. Touched only on the compute loop; callbacks may outlive this.
  struct Awaited {
    std::function<void(Status)> answer;  // null: nobody waits any more
    TimePoint deadline;
    bool watched = false;  // a timer runs
  };

  void Watch();  // compute loop
  void Answer(const Status& status, const std::function<void(Status)>& packed);
  void Cancel();  // `packed` does not run afterwards

  TopKAllReduce all_reduce_;
  const std::vector<const Tensor*> tensors_;
  const bool one_stream_;  // for all of them
  std::unique_ptr<DeviceGroup> group_;
  Loop* const compute_;
  const std::shared_ptr<Awaited> awaited_ = std::make_shared<Awaited>();
  std::atomic<bool> pending_{false};
};

}  // namespace ringwood
