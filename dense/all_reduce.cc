#include "dense/all_reduce.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "dense/broadcast.h"
#include "dense/chunks.h"
#include "dense/doubling.h"
#include "dense/ring.h"

namespace ringwood {
namespace {

// One message of a ring: long enough that the cost of a message (about 50 µs of both ends' CPU) is
// small beside its time on the wire (2 ms at 1 Gbit/s), short enough that four chunks of eight
// ranks stay in the caches.
constexpr size_t kMessageBytes = 256 << 10;

Status Validate(const AllReduceRequest& request) {
  const std::string who =
      absl::StrFormat("all-reduce of round %d group %d: ", request.round, request.group);
  if (request.world < 1 || request.rank < 0 || request.rank >= request.world) {
    return Invalid(absl::StrFormat("%srank %d of world %d", who, request.rank, request.world));
  }
  if (SizeOf(request.type) == 0) return Invalid(who + "unknown element type");
  if (request.input.size() != request.output.size() ||
      request.input.size() % SizeOf(request.type) != 0) {
    return Invalid(absl::StrFormat("%sinput of %d and output of %d bytes for %s elements", who,
                                   request.input.size(), request.output.size(),
                                   NameOf(request.type)));
  }
  if (request.wire != "fp32") {
    return Invalid(who + "unknown wire format \"" + request.wire + "\"; there is: fp32");
  }
  return OkStatus();
}

uint64_t SentBytes(const Schedule& schedule, size_t elements, size_t chunk_elements, int slots,
                   size_t element_bytes) {
  uint64_t sent = 0;
  const auto add = [&](size_t count, uint64_t times) {
    const std::vector<size_t> bounds = EvenBounds(count, slots);
    for (const Step& step : schedule) {
      if (step.op == Op::kSend) sent += times * (bounds[step.slot + 1] - bounds[step.slot]);
    }
  };
  add(chunk_elements, elements / chunk_elements);
  add(elements % chunk_elements, 1);
  return sent * element_bytes;
}

}  // namespace

void StartAllReduce(Transport* transport, const AllReduceRequest& request,
                    std::function<void(StatusOr<AllReduceResult>)> done) {
  if (Status status = Validate(request); !status.ok()) return done(status);
  if (request.world == 1 || request.input.empty()) {
    if (!request.input.empty() && request.input.data() != request.output.data()) {
      std::memcpy(request.output.data(), request.input.data(), request.input.size());
    }
    return done(AllReduceResult{Digest(request.output), 0});
  }
  const size_t size = SizeOf(request.type);
  const size_t chunk_bytes =
      request.chunk_bytes != 0 ? request.chunk_bytes : kMessageBytes * request.world;
  ChunksRequest chunks;
  const bool doubling =
      request.chunk_bytes == 0 &&
      ChooseSchedule(request.input.size(), request.world, request.cost).strategy ==
          Strategy::kRecursiveDoubling;
  chunks.chunk_elements =
      doubling ? request.input.size() / size : std::max<size_t>(1, chunk_bytes / size);
  chunks.slots = doubling ? 1 : request.world;
  chunks.run.transport = transport;
  chunks.run.schedule = doubling ? RecursiveDoubling(request.rank, request.world)
                                 : RingAllReduce(request.rank, request.world);
  chunks.run.self = request.rank;
  chunks.run.name = {request.lane, request.round, request.group, 0, 0};
  chunks.run.type = request.type;
  chunks.run.op = request.op;
  chunks.run.input = request.input;
  chunks.run.output = request.output;
  const uint64_t sent = SentBytes(chunks.run.schedule, request.input.size() / size,
                                  chunks.chunk_elements, chunks.slots, size);
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
  chunks.run.type = DataType::kUInt8;
  chunks.run.input = request.data;
  chunks.run.output = request.data;
  RunChunks(std::move(chunks), [done = std::move(done)](StatusOr<uint64_t> digest) {
    done(Annotate(digest.status(), "broadcast"));
  });
}

}  // namespace ringwood
