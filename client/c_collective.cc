// The C interface: collectives outside the plan.
#include "client/c_handle.h"

using ringwood::Invalid;
using ringwood::Status;
using ringwood::c::Bytes;
using ringwood::c::With;

extern "C" {

int ringwood_allreduce(ringwood_session* session, void* data, uint64_t elements, int type, int op) {
  return With(session, [&](auto& open) -> Status {
    const auto element = static_cast<ringwood::DataType>(type);
    const size_t size = type > 0 && type < 256 ? ringwood::SizeOf(element) : 0;
    if (size == 0) return Invalid(absl::StrFormat("there is no element type %d", type));
    if (op < RINGWOOD_SUM || op > RINGWOOD_MIN) {
      return Invalid(absl::StrFormat("there is no operation %d", op));
    }
    if (elements > UINT64_MAX / size) return Invalid("more elements than memory can have");
    RW_ASSIGN_OR_RETURN(const auto bytes, Bytes(data, elements * size));
    const auto reduce = op == RINGWOOD_MAX   ? ringwood::ReduceOp::kMax
                        : op == RINGWOOD_MIN ? ringwood::ReduceOp::kMin
                                             : ringwood::ReduceOp::kSum;
    return open.AllReduce(bytes, element, reduce, op == RINGWOOD_AVERAGE);
  });
}

int ringwood_broadcast(ringwood_session* session, void* data, uint64_t bytes, int root) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const auto span, Bytes(data, bytes));
    return open.Broadcast(span, root);
  });
}

}  // extern "C"
