#include "dense/shares.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "dense/choose.h"
#include "dense/chunks.h"
#include "dense/direct.h"
#include "dense/ring.h"

namespace ringwood {
namespace {

struct HalfSchedules {
  const char* name;
  Schedule (*direct)(int rank, int world);
  Schedule (*ring)(int rank, int world);
};

// A ring of dense/ring.h leaves rank r with slot r+1; here it is to be share r.
Schedule Shifted(Schedule schedule, int world) {
  for (Step& step : schedule) step.slot = (step.slot + world - 1) % world;
  return schedule;
}

Status ValidateShares(const SharesRequest& request, const char* name) {
  const std::string who =
      absl::StrFormat("%s of round %d group %d: ", name, request.round, request.group);
  if (request.world < 1 || request.rank < 0 || request.rank >= request.world) {
    return Invalid(absl::StrFormat("%srank %d of world %d", who, request.rank, request.world));
  }
  if (SizeOf(request.type) == 0) return Invalid(who + "unknown element type");
  if (request.data.size() % SizeOf(request.type) != 0) {
    return Invalid(absl::StrFormat("%s%d bytes of %s elements", who, request.data.size(),
                                   NameOf(request.type)));
  }
  return OkStatus();
}

void Start(Transport* transport, const SharesRequest& request, const HalfSchedules& half,
           std::function<void(Status)> done) {
  if (Status status = ValidateShares(request, half.name); !status.ok()) return done(status);
  if (request.world == 1 || request.data.empty()) return done(OkStatus());
  const bool direct = request.message_bytes == 0 && request.data.size() <= kMaxDirectBytes;
  const uint64_t message = request.message_bytes != 0
                               ? request.message_bytes
                               : RingMessageBytes(request.data.size(), request.world);
  const size_t size = SizeOf(request.type);
  ChunksRequest chunks;
  chunks.slots = request.world;
  chunks.by_share = true;
  chunks.chunk_elements = direct ? request.data.size() : message * request.world / size;
  chunks.run.transport = transport;
  chunks.run.schedule = direct ? half.direct(request.rank, request.world)
                               : Shifted(half.ring(request.rank, request.world), request.world);
  chunks.run.self = request.rank;
  chunks.run.name = {request.lane, request.round, request.group, 0, 0};
  chunks.run.values.type = request.type;
  chunks.run.values.op = request.op;
  chunks.run.values.input = request.data;
  chunks.run.values.output = request.data;
  RunChunks(std::move(chunks),
            [done = std::move(done), name = half.name](StatusOr<uint64_t> digest) {
              done(Annotate(digest.status(), name));
            });
}

}  // namespace

void StartReduceScatter(Transport* transport, const SharesRequest& request,
                        std::function<void(Status)> done) {
  Start(transport, request, {"reduce-scatter", DirectReduceScatter, RingReduceScatter},
        std::move(done));
}

void StartAllGather(Transport* transport, const SharesRequest& request,
                    std::function<void(Status)> done) {
  Start(transport, request, {"all-gather", DirectAllGather, RingAllGather}, std::move(done));
}

}  // namespace ringwood
