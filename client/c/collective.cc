// The C interface: collectives outside the plan.
#include "client/c/handle.h"
#include "dense/cut.h"

using ringwood::DataType;
using ringwood::Invalid;
using ringwood::ReduceOp;
using ringwood::Status;
using ringwood::StatusOr;
using ringwood::c::Bytes;
using ringwood::c::ReduceOf;
using ringwood::c::With;

namespace {

struct Region {
  std::span<std::byte> bytes;
  DataType type;
};

StatusOr<Region> RegionOf(void* data, uint64_t elements, int type) {
  const auto element = static_cast<DataType>(type);
  const size_t size = type > 0 && type < 256 ? ringwood::SizeOf(element) : 0;
  if (size == 0) return Invalid(absl::StrFormat("there is no element type %d", type));
  if (elements > UINT64_MAX / size) return Invalid("more elements than memory can have");
  RW_ASSIGN_OR_RETURN(const auto bytes, Bytes(data, elements * size));
  return Region{bytes, element};
}

}  // namespace

StatusOr<ReduceOp> ringwood::c::ReduceOf(int op) {
  if (op < RINGWOOD_SUM || op > RINGWOOD_PRODUCT) {
    return Invalid(absl::StrFormat("there is no operation %d", op));
  }
  return static_cast<ReduceOp>(op);
}

extern "C" {

int ringwood_allreduce(ringwood_session* session, void* data, uint64_t elements, int type, int op) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const Region region, RegionOf(data, elements, type));
    RW_ASSIGN_OR_RETURN(const ReduceOp reduce, ReduceOf(op));
    return open.AllReduce(region.bytes, region.type, reduce);
  });
}

int ringwood_broadcast(ringwood_session* session, void* data, uint64_t bytes, int root) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const auto span, Bytes(data, bytes));
    return open.Broadcast(span, root);
  });
}

int ringwood_share(ringwood_session* session, uint64_t elements, uint64_t* begin, uint64_t* count) {
  return With(session, [&](auto& open) -> Status {
    if (begin == nullptr || count == nullptr) return Invalid("begin or count is NULL");
    const ringwood::Range share = ringwood::CutEvenly(elements, open.world())[open.rank()];
    *begin = share.begin;
    *count = share.count;
    return ringwood::OkStatus();
  });
}

int ringwood_reduce_scatter(ringwood_session* session, void* data, uint64_t elements, int type,
                            int op) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const Region region, RegionOf(data, elements, type));
    RW_ASSIGN_OR_RETURN(const ReduceOp reduce, ReduceOf(op));
    return open.ReduceScatter(region.bytes, region.type, reduce);
  });
}

int ringwood_all_gather(ringwood_session* session, void* data, uint64_t elements, int type) {
  return With(session, [&](auto& open) -> Status {
    RW_ASSIGN_OR_RETURN(const Region region, RegionOf(data, elements, type));
    return open.AllGather(region.bytes, region.type);
  });
}

}  // extern "C"
