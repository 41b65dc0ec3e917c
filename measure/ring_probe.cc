#include "measure/ring_probe.h"

#include <limits>

namespace ringwood {
namespace {

// Measuring is the purpose here, so no time is enough.
constexpr double kAllTurns = std::numeric_limits<double>::infinity();

AllReduceCall AllReduceOf(Session* session) {
  return [session](std::span<std::byte> data, DataType type, ReduceOp op) {
    return session->AllReduce(data, type, op);
  };
}

}  // namespace

Status Barrier(Session* session) { return Barrier(AllReduceOf(session)); }

StatusOr<ProbeResult> ProbeRing(Session* session) {
  return ProbeRing(AllReduceOf(session), {4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20},
                   kAllTurns);
}

}  // namespace ringwood
