#include "dense/shares.h"

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "dense/chunks.h"

namespace ringwood {
namespace {

Status ValidateShares(const SharesRequest& request, Verb verb) {
  const Place& place = request.place;
  const std::string who = absl::StrFormat("%s of round %d group %d: ", NameOf(verb),
                                          request.name.round, request.name.group);
  if (place.world < 1 || place.rank < 0 || place.rank >= place.world) {
    return Invalid(absl::StrFormat("%srank %d of world %d", who, place.rank, place.world));
  }
  if (SizeOf(request.type) == 0) return Invalid(who + "unknown element type");
  if (request.data.size() % SizeOf(request.type) != 0) {
    return Invalid(absl::StrFormat("%s%d bytes of %s elements", who, request.data.size(),
                                   NameOf(request.type)));
  }
  const std::vector<uint64_t>& shares = request.shares;
  if (shares.empty()) return OkStatus();
  if (AreLengths(shares, request.data.size() / SizeOf(request.type), place.world)) {
    return OkStatus();
  }
  return Invalid(absl::StrFormat("%s%d shares are not %d that have %d bytes together", who,
                                 shares.size(), place.world, request.data.size()));
}

void Start(Transport* transport, const SharesRequest& request, Verb verb,
           std::function<void(Status)> done) {
  if (Status status = ValidateShares(request, verb); !status.ok()) return done(status);
  if (request.place.world == 1 || request.data.empty()) return done(OkStatus());
  RunRequest run;
  run.transport = transport;
  run.collective =
      std::make_shared<const Collective>(CollectiveFor(SpecOf(request, verb), request.place));
  run.self = NodeOf(request.place, request.place.rank);
  run.name = request.name;
  run.asked = request.asked;
  run.values.type = request.type;
  run.values.op = request.op;
  run.values.input = request.data;
  run.values.output = request.data;
  RunCollective(std::move(run), [done = std::move(done), verb](StatusOr<uint64_t> digest) {
    done(Annotate(digest.status(), NameOf(verb)));
  });
}

}  // namespace

CollectiveSpec SpecOf(const SharesRequest& request, Verb verb) {
  CollectiveSpec spec;
  spec.verb = verb;
  spec.type = request.type;
  spec.elements = request.data.size() / SizeOf(request.type);
  spec.shares = request.shares;
  spec.chunk_bytes = request.message_bytes * static_cast<size_t>(request.place.world);
  return spec;
}

void StartReduceScatter(Transport* transport, const SharesRequest& request,
                        std::function<void(Status)> done) {
  Start(transport, request, Verb::kReduceScatter, std::move(done));
}

void StartAllGather(Transport* transport, const SharesRequest& request,
                    std::function<void(Status)> done) {
  Start(transport, request, Verb::kAllGather, std::move(done));
}

}  // namespace ringwood
