// All-reduce and broadcast of device memory between the ranks of one epoch, over NCCL. What
// dense/all_reduce.h is for host memory: same rules for buffers, errors and the digest.
//
// Every method and callback is on the loop's thread. Nothing waits there: NCCL's calls do not block
// and are polled on a thread of the ring's (dense/cuda/ring_thread.h), what they start runs on a
// stream of its own, after what the caller's stream held, and a callback of CUDA's posts the
// answer. The ring lives for one epoch; a new epoch makes a new one, from a new id.
//
// Long sums of fp32 and bf16 of hosts with several ranks are added by kernels of ours (sum_plan.h),
// all others by NCCL, in an order that depends on its algorithm: results equal those of a host ring
// to rounding only; all ranks have the same bits, which the digest proves. Sums of codes are added
// by kernels of ours (coded_plan.h): they have the bits of a host's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/loop.h"
#include "dense/all_reduce.h"
#include "dense/cuda/device_codes.h"
#include "dense/hosts.h"

namespace ringwood {

constexpr size_t kDeviceRingIdBytes = 128;

// Opaque bytes that one rank makes for an epoch and all ranks of it need (the control plane carries
// them). `library` as in DeviceRingOptions.
StatusOr<std::string> MakeDeviceRingId(const std::string& library);

struct DeviceRingOptions {
  int device = 0;
  int rank = 0;
  int world = 1;
  Hosts hosts = {};  // of the ranks; empty: each has one of its own
  std::string id;
  std::string library;  // libnccl.so.2; empty: searched
  // For all ranks to come, and for a call from when NCCL has it. Heartbeats of the control plane
  // find the dead sooner and end the ring by Close; this bounds what they cannot see.
  double timeout_seconds = 60;
};

struct DeviceReduction {
  uint64_t round = 0;  // these two name the call in errors
  uint32_t group = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  const void* input = nullptr;
  void* output = nullptr;  // may be the input
  uint64_t count = 0;
  void* producer = nullptr;  // cudaStream_t: what it holds now comes first
  DeviceCodes codes = {};    // of fp32 sums into memory that is not the input's
};

struct DeviceBroadcast {
  uint64_t round = 0;
  uint32_t group = 0;
  int root = 0;
  void* data = nullptr;
  uint64_t bytes = 0;
  void* producer = nullptr;
};

class DeviceRing {
 public:
  // Calls under way at most; all ranks make them in the same order.
  static constexpr size_t kMaxInFlight = 1024;
  // MakeDeviceRing takes no longer: the first use of a device in a process takes seconds.
  static constexpr double kMakeSeconds = 60;
  // Close gives NCCL so long to let go of the buffers.
  static constexpr double kAbortSeconds = 5;

  virtual ~DeviceRing() = default;  // closes

  // Calls made before the ring stands wait for it. The result's digest is WordDigest of the
  // output (word_digest.h), and with codes of both reaches, too; `sent_bytes` is that of the plan,
  // and where NCCL adds that of a ring, whatever it chose.
  virtual void AllReduce(const DeviceReduction& reduction,
                         std::function<void(StatusOr<AllReduceResult>)> done) = 0;
  virtual void Broadcast(const DeviceBroadcast& broadcast, std::function<void(Status)> done) = 0;

  // Ends the epoch: every pending and later call is answered with `reason`, no buffer is touched
  // afterwards. TimedOut: NCCL did not let go in kAbortSeconds, buffers and device are not safe any
  // more and the process must end.
  // Once closed it does nothing.
  virtual Status Close(const Status& reason) = 0;
};

// The owner's handle of a ring that lives on while callbacks of its device know it.
class DeviceRingHandle : public DeviceRing {
 public:
  explicit DeviceRingHandle(std::shared_ptr<DeviceRing> ring) : ring_(std::move(ring)) {}
  ~DeviceRingHandle() override { (void)ring_->Close(Aborted("the ring was destroyed")); }
  void AllReduce(const DeviceReduction& reduction,
                 std::function<void(StatusOr<AllReduceResult>)> done) override {
    ring_->AllReduce(reduction, std::move(done));
  }
  void Broadcast(const DeviceBroadcast& broadcast, std::function<void(Status)> done) override {
    ring_->Broadcast(broadcast, std::move(done));
  }
  Status Close(const Status& reason) override { return ring_->Close(reason); }

 private:
  const std::shared_ptr<DeviceRing> ring_;
};

// Does not wait for the other ranks. Refused without CUDA, device or NCCL.
StatusOr<std::unique_ptr<DeviceRing>> MakeDeviceRing(Loop* loop, const DeviceRingOptions& options);

}  // namespace ringwood
