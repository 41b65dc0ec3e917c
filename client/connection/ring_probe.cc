#include "client/connection/ring_probe.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "client/exchange/exchange.h"

namespace ringwood {

AllReduceCall AllReduceOf(Collectives* collectives) {
  return [collectives](std::span<std::byte> data, DataType type, ReduceOp op) {
    return collectives->AllReduce(data, type, op);
  };
}

Status Barrier(const AllReduceCall& all_reduce) {
  int32_t here = 1;
  return all_reduce(std::as_writable_bytes(std::span(&here, 1)), DataType::kInt32, ReduceOp::kMax);
}

// All rounds are run: ranks that stopped by their own clocks would no longer agree on the messages.
StatusOr<ProbeResult> ProbeRing(const AllReduceCall& all_reduce,
                                const std::vector<uint64_t>& sizes) {
  ProbeOptions options;
  options.sizes = sizes;
  options.repeats = 3;
  options.limit_seconds = kLongestWaitSeconds;
  Buffer<float> data(sizes.back() / sizeof(float));
  const auto message = [&](uint64_t bytes) -> StatusOr<double> {
    RW_RETURN_IF_ERROR(Barrier(all_reduce));
    const TimePoint start = Now();
    RW_RETURN_IF_ERROR(all_reduce(std::as_writable_bytes(data.span()).first(bytes),
                                  DataType::kFloat32, ReduceOp::kSum));
    return ToSeconds(Now() - start);
  };
  return Probe(message, options);
}

}  // namespace ringwood
