#include "measure/ring_probe.h"

#include "base/buffer.h"
#include "base/clock.h"

namespace ringwood {

Status Barrier(Session* session) {
  int32_t here = 1;
  return session->AllReduce(std::as_writable_bytes(std::span(&here, 1)), DataType::kInt32,
                            ReduceOp::kSum, false);
}

// All probe rounds are run: ranks that stopped by their own clocks would no longer agree on the
// messages.
StatusOr<ProbeResult> ProbeRing(Session* session) {
  ProbeOptions probe;
  probe.sizes = {4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20};
  probe.repeats = 3;
  probe.limit_seconds = kLongestWaitSeconds;
  Buffer<float> data(probe.sizes.back() / sizeof(float));
  const auto ring = [&](uint64_t bytes) -> StatusOr<double> {
    RW_RETURN_IF_ERROR(Barrier(session));
    const TimePoint start = Now();
    RW_RETURN_IF_ERROR(session->AllReduce(std::as_writable_bytes(data.span()).first(bytes),
                                          DataType::kFloat32, ReduceOp::kSum, false));
    return ToSeconds(Now() - start);
  };
  return Probe(ring, probe);
}

}  // namespace ringwood
