// One call of a device's ring while it is under way: what was asked for, and what came of it. Only
// for sources that are built with CUDA.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/cuda/runtime.h"
#include "base/digest.h"
#include "dense/cuda/coded_plan.h"
#include "dense/cuda/device_ring.h"
#include "dense/cuda/sum_plan.h"

namespace ringwood {

// What the device says of a result, beside it.
struct RingFindings {
  uint64_t output = 0, reach = 0, next_reach = 0;  // digests
  uint32_t most = 0;                               // of the next reaches
};

struct RingCall {
  bool reduce = true;  // or broadcast
  DeviceReduction reduction;
  int root = 0;
  std::function<void(StatusOr<AllReduceResult>)> done;
  std::unique_ptr<CudaEvent> produced;  // the producer's stream when the call was made
  TimePoint deadline;                   // once NCCL has it
  // Steps of ours, of at most one of the two; NCCL's own all-reduce and broadcasts have none.
  cuda::CodedPlan codes;
  cuda::SumPlan sums;
  size_t next_step = 0;

  bool coded() const { return reduction.codes.bits != 0; }
  std::string Name() const {
    return absl::StrFormat("%s of round %d group %d over NCCL", reduce ? "all-reduce" : "broadcast",
                           reduction.round, reduction.group);
  }
  size_t steps() const { return codes.steps.size() + sums.steps.size(); }
  uint64_t bytes() const { return reduction.count * SizeOf(reduction.type); }
};

// NCCL's numbers (nccl.h, ncclDataType_t and ncclRedOp_t).
inline int NcclType(DataType type) {
  switch (type) {
    case DataType::kUInt8:
      return 1;
    case DataType::kInt32:
      return 2;
    case DataType::kInt64:
      return 4;
    case DataType::kFloat16:
      return 6;
    case DataType::kFloat32:
      return 7;
    case DataType::kFloat64:
      return 8;
    case DataType::kBFloat16:
      return 9;
  }
  return -1;
}

inline int NcclOp(ReduceOp op) { return op == ReduceOp::kSum ? 0 : op == ReduceOp::kMax ? 2 : 3; }

// What no ring of `world` ranks does is Invalid.
inline Status CheckCall(const RingCall& call, int world) {
  const DeviceReduction& r = call.reduction;
  if (NcclType(r.type) < 0) return Invalid(call.Name() + ": unknown element type");
  if (call.root < 0 || call.root >= world) {
    return Invalid(absl::StrFormat("%s: root %d of %d ranks", call.Name(), call.root, world));
  }
  if (!call.coded()) return OkStatus();
  if (r.type != DataType::kFloat32 || r.op != ReduceOp::kSum || r.input == r.output) {
    return Invalid(call.Name() + ": codes are for sums of float32, out of place");
  }
  const int most = MostLatticeTerms(LatticeLevels(r.codes.bits));
  if (world <= most) return OkStatus();
  return Invalid(absl::StrFormat("%s: int%d adds up to %d ranks, these are %d", call.Name(),
                                 r.codes.bits, most, world));
}

inline AllReduceResult ResultOf(const RingCall& call, int world, const RingFindings& findings) {
  const uint64_t around = world - 1;
  AllReduceResult result;
  result.sent_bytes = call.steps() > 0
                          ? call.codes.sent_bytes + call.sums.sent * SizeOf(call.reduction.type)
                          : 2 * around * call.bytes() / world;
  if (call.reduce) result.digest = findings.output;
  if (!call.coded()) return result;
  result.digest = Combine(Combine(findings.output, findings.reach), findings.next_reach);
  result.non_finite = findings.most > kLargestReach;
  return result;
}

}  // namespace ringwood
