#include "dense/all_reduce.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "dense/broadcast.h"
#include "dense/chunks.h"
#include "dense/direct.h"
#include "dense/doubling.h"
#include "dense/hierarchy.h"
#include "dense/ring.h"

namespace ringwood {
namespace {

// One message of a broadcast: long enough that the cost of a message (about 50 us of both ends'
// processors) is small beside its time on the wire (2 ms at 1 Gbit/s).
constexpr size_t kMessageBytes = 256 << 10;

// Of one chunk of a hierarchy: the ranks of a host send all of it to its agents at once, four
// chunks together. What an agent has not asked for yet stays far below the 64 MiB that a transport
// keeps.
constexpr size_t kHierarchyChunkBytes = 8 << 20;

Status Validate(const AllReduceRequest& request) {
  const std::string who =
      absl::StrFormat("all-reduce of round %d group %d: ", request.round, request.group);
  if (request.world < 1 || request.rank < 0 || request.rank >= request.world) {
    return Invalid(absl::StrFormat("%srank %d of world %d", who, request.rank, request.world));
  }
  if (request.hosts != nullptr && !IsComplete(*request.hosts, request.world)) {
    return Invalid(absl::StrFormat("%sthe hosts have %d ranks, not the %d of the world", who,
                                   RanksOf(*request.hosts), request.world));
  }
  if (SizeOf(request.type) == 0) return Invalid(who + "unknown element type");
  if (request.input.size() != request.output.size() ||
      request.input.size() % SizeOf(request.type) != 0) {
    return Invalid(absl::StrFormat("%sinput of %d and output of %d bytes for %s elements", who,
                                   request.input.size(), request.output.size(),
                                   NameOf(request.type)));
  }
  if (request.wire != "fp32" && request.wire != "bf16") {
    return Invalid(who + "unknown wire format \"" + request.wire + "\"; there are: fp32, bf16");
  }
  if (request.wire == "fp32") return OkStatus();
  if (request.type != DataType::kFloat32 || request.op != ReduceOp::kSum) {
    return Invalid(
        absl::StrFormat("%sthe wire format bf16 is for sums of float32, not for %s of %s", who,
                        NameOf(request.op), NameOf(request.type)));
  }
  const size_t elements = request.input.size() / sizeof(float);
  if (request.error.size() != elements || request.next_error.size() != elements) {
    return Invalid(
        absl::StrFormat("%sthe wire format bf16 needs errors of %d elements, got %d and "
                        "%d",
                        who, elements, request.error.size(), request.next_error.size()));
  }
  if (elements != 0 && request.input.data() == request.output.data()) {
    return Invalid(who + "the wire format bf16 needs an output beside the input");
  }
  return OkStatus();
}

// How a request is run; the same on all ranks but for the schedule.
struct Way {
  Schedule schedule;
  size_t chunk_elements = 1;
  int slots = 1;
  bool rounded = false;  // travels as bf16
};

Strategy StrategyOf(const AllReduceRequest& request) {
  if (request.chunk_bytes != 0) return Strategy::kRing;
  if (request.strategy) return *request.strategy;
  return ChooseSchedule({.bytes = request.input.size(),
                         .world = request.world,
                         .cost = request.cost,
                         .ring_ratio = request.wire == "bf16" ? 0.5 : 1,
                         .hosts = request.hosts})
      .strategy;
}

// A ring in the order of the hosts: as few neighbours as can be are on different ones.
Schedule RingByHosts(int rank, const Hosts& hosts) {
  const std::vector<int> order = HostOrder(hosts);
  const auto place = std::find(order.begin(), order.end(), rank) - order.begin();
  Schedule schedule = RingAllReduce(static_cast<int>(place), static_cast<int>(order.size()));
  for (Step& step : schedule) step.peer = order[step.peer];
  return schedule;
}

// `longest`: bytes of a chunk at most, for what is kept of it by those that are not ready for it.
void CutIntoChunks(const AllReduceRequest& request, size_t longest, Way* way) {
  // The messages of a chunk are as long with bf16 as with fp32.
  const uint64_t ratio = way->rounded ? 2 : 1;
  const uint64_t message = RingMessageBytes(request.input.size() / ratio, way->slots);
  const size_t chunk_bytes = request.chunk_bytes != 0
                                 ? request.chunk_bytes
                                 : std::min<size_t>(message * way->slots * ratio, longest);
  way->chunk_elements = std::max<size_t>(1, chunk_bytes / SizeOf(request.type));
}

Way WayOf(const AllReduceRequest& request) {
  const Hosts hosts = request.hosts != nullptr ? *request.hosts : OneEach(request.world);
  Way way;
  way.slots = request.world;
  way.chunk_elements = std::max<size_t>(1, request.input.size() / SizeOf(request.type));
  switch (StrategyOf(request)) {
    case Strategy::kRing:
      way.schedule = RingByHosts(request.rank, hosts);
      way.rounded = request.wire == "bf16" && request.world > 1;
      CutIntoChunks(request, SIZE_MAX, &way);
      break;
    case Strategy::kHierarchy:
      way.schedule = HierarchicalAllReduce(request.rank, hosts);
      way.slots = HierarchySlots(hosts);
      way.rounded = request.wire == "bf16" && hosts.size() > 1;
      CutIntoChunks(request, kHierarchyChunkBytes, &way);
      break;
    case Strategy::kRecursiveDoubling:
      way.schedule = RecursiveDoubling(request.rank, request.world);
      way.slots = 1;
      break;
    case Strategy::kDirect:
      way.schedule = DirectExchange(request.rank, request.world);
      break;
  }
  return way;
}

uint64_t SentBytes(const Way& way, size_t elements, size_t element_bytes) {
  uint64_t sent = 0;
  const auto add = [&](size_t count, uint64_t times) {
    const std::vector<Range> slots = CutEvenly(count, way.slots);
    for (const Step& step : way.schedule) {
      if (step.op != Op::kSend) continue;
      const size_t each = way.rounded && !step.exact ? sizeof(uint16_t) : element_bytes;
      sent += times * slots[step.slot].count * each;
    }
  };
  add(way.chunk_elements, elements / way.chunk_elements);
  add(elements % way.chunk_elements, 1);
  return sent;
}

// Where nothing is rounded the error goes on its way whole: output = input + error, no error stays.
void AddError(const AllReduceRequest& request) {
  const size_t elements = request.error.size();
  Reduce(DataType::kFloat32, ReduceOp::kSum, request.input.data(), request.error.data(),
         request.output.data(), elements);
  std::fill(request.next_error.begin(), request.next_error.end(), 0.0f);
}

}  // namespace

void StartAllReduce(Transport* transport, const AllReduceRequest& request,
                    std::function<void(StatusOr<AllReduceResult>)> done) {
  if (Status status = Validate(request); !status.ok()) return done(status);
  const Way way = WayOf(request);
  ChunksRequest chunks;
  chunks.chunk_elements = way.chunk_elements;
  chunks.slots = way.slots;
  chunks.run.transport = transport;
  chunks.run.schedule = way.schedule;
  chunks.run.self = request.rank;
  chunks.run.name = {request.lane, request.round, request.group, 0, 0};
  Values& values = chunks.run.values;
  values.type = request.type;
  values.op = request.op;
  values.input = request.input;
  values.output = request.output;
  values.rounded = way.rounded;
  values.error = request.error;
  values.next_error = request.next_error;
  if (request.wire == "bf16" && !way.rounded) {
    AddError(request);
    values.input = request.output;
  }
  if (request.world == 1 || request.input.empty()) {
    if (!request.input.empty() && values.input.data() != request.output.data()) {
      std::memcpy(request.output.data(), request.input.data(), request.input.size());
    }
    return done(AllReduceResult{Digest(request.output), 0});
  }
  const size_t element_bytes = SizeOf(request.type);
  const uint64_t sent = SentBytes(way, request.input.size() / element_bytes, element_bytes);
  RunChunks(std::move(chunks), [done = std::move(done), sent](StatusOr<uint64_t> digest) {
    if (!digest.ok()) return done(Annotate(digest.status(), "all-reduce"));
    done(AllReduceResult{*digest, sent});
  });
}

void StartBroadcast(Transport* transport, const BroadcastRequest& request,
                    std::function<void(Status)> done) {
  if (request.world < 1 || request.rank < 0 || request.rank >= request.world || request.root < 0 ||
      request.root >= request.world) {
    return done(Invalid(absl::StrFormat("broadcast from rank %d by rank %d of world %d",
                                        request.root, request.rank, request.world)));
  }
  if (request.world == 1 || request.data.empty()) return done(OkStatus());
  ChunksRequest chunks;
  chunks.chunk_elements = kMessageBytes;
  chunks.run.transport = transport;
  chunks.run.schedule = request.data.size() <= kMessageBytes
                            ? BroadcastTree(request.rank, request.world, request.root)
                            : BroadcastChain(request.rank, request.world, request.root);
  chunks.run.self = request.rank;
  chunks.run.name = {request.lane, request.round, request.group, 0, 0};
  chunks.run.values.type = DataType::kUInt8;
  chunks.run.values.input = request.data;
  chunks.run.values.output = request.data;
  RunChunks(std::move(chunks), [done = std::move(done)](StatusOr<uint64_t> digest) {
    done(Annotate(digest.status(), "broadcast"));
  });
}

}  // namespace ringwood
