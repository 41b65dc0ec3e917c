#include "client/connection/ring_probe.h"

#include <algorithm>

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

int TurnsBehind(double first_seconds, double enough_seconds, int most) {
  const double turns = enough_seconds / std::max(first_seconds, 1e-9);
  return turns < most ? static_cast<int>(turns) : most;
}

StatusOr<int> AgreeOnTurns(const AllReduceCall& all_reduce, double first_seconds,
                           double enough_seconds, int most) {
  RW_RETURN_IF_ERROR(all_reduce(std::as_writable_bytes(std::span(&first_seconds, 1)),
                                DataType::kFloat64, ReduceOp::kMax));
  return TurnsBehind(first_seconds, enough_seconds, most);
}

// Ranks that stopped by their own clocks would no longer agree on the messages.
StatusOr<ProbeResult> ProbeRing(const AllReduceCall& all_reduce, const std::vector<uint64_t>& sizes,
                                double enough_seconds) {
  ProbeOptions options;
  options.sizes = sizes;
  options.repeats_behind = [&](double first_seconds) {
    return AgreeOnTurns(all_reduce, first_seconds, enough_seconds, 3);
  };
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
