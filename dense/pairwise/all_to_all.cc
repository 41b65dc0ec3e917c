#include "dense/pairwise/all_to_all.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "dense/cut.h"

namespace ringwood {
namespace {

Status ValidateAllToAll(const AllToAllRequest& request) {
  const Place& place = request.place;
  const size_t size = SizeOf(request.type);
  if (place.world < 1 || place.rank < 0 || place.rank >= place.world || size == 0) {
    return Invalid(absl::StrFormat("all-to-all: rank %d of world %d, elements of %d bytes",
                                   place.rank, place.world, size));
  }
  const auto check = [&](const std::vector<uint64_t>& counts, size_t bytes, const char* what) {
    if (AreLengths(counts, bytes / size, place.world)) return OkStatus();
    return Invalid(
        absl::StrFormat("all-to-all: the %s of %d bytes is cut into %d parts that are not all of "
                        "it, in a world of %d",
                        what, bytes, counts.size(), place.world));
  };
  RW_RETURN_IF_ERROR(check(request.sends, request.input.size(), "input"));
  RW_RETURN_IF_ERROR(check(request.receives, request.output.size(), "output"));
  if (request.sends[place.rank] == request.receives[place.rank]) return OkStatus();
  return Invalid(absl::StrFormat("all-to-all: rank %d sends itself %d elements and awaits %d",
                                 place.rank, request.sends[place.rank],
                                 request.receives[place.rank]));
}

class PairwiseExchange : public std::enable_shared_from_this<PairwiseExchange> {
 public:
  PairwiseExchange(Transport* transport, const AllToAllRequest& request,
                   std::function<void(Status)> done)
      : transport_(transport),
        request_(request),
        out_(CutBy(request.sends)),
        in_(CutBy(request.receives)),
        pairs_(request.place.world),
        done_(std::move(done)) {}

  // A rank's first message goes to the next one, and so on: no rank is everybody's first.
  void Start() {
    const int world = request_.place.world, rank = request_.place.rank;
    const size_t size = SizeOf(request_.type);
    if (out_[rank].count != 0) {
      std::memcpy(request_.output.data() + in_[rank].begin * size,
                  request_.input.data() + out_[rank].begin * size, out_[rank].count * size);
    }
    open_ = world - 1;
    for (int distance = 1; distance < world; ++distance) {
      const int peer = (rank + distance) % world;
      const uint64_t longer = std::max(out_[peer].count, in_[peer].count);
      pairs_[peer].chunks = std::max<uint64_t>(1, (longer + Elements() - 1) / Elements());
      for (uint64_t chunk = 0; chunk < kPairChunks; ++chunk) Begin(peer);
    }
    if (open_ == 0) std::exchange(done_, nullptr)(OkStatus());
  }

 private:
  struct Pair {
    uint64_t chunks = 0;
    uint64_t begun = 0;
    uint64_t ended = 0;
  };

  uint64_t Elements() const { return kPairChunkBytes / SizeOf(request_.type); }
  // The part of one way that is in a chunk; empty behind its end.
  Range Part(const Range& way, uint64_t chunk) const {
    const uint64_t begin = std::min<uint64_t>(chunk * Elements(), way.count);
    return {way.begin + begin, std::min<uint64_t>(Elements(), way.count - begin)};
  }

  // Its next chunk, both ways.
  void Begin(int peer) {
    Pair& pair = pairs_[peer];
    if (pair.begun == pair.chunks || done_ == nullptr) return;
    const uint64_t chunk = pair.begun++;
    const size_t size = SizeOf(request_.type);
    const Range out = Part(out_[peer], chunk), in = Part(in_[peer], chunk);
    MessageName name = request_.name;
    name.chunk = static_cast<uint32_t>(chunk);
    const auto type = static_cast<uint8_t>(request_.type);
    auto ways = std::make_shared<int>(2);
    const auto ended = [self = shared_from_this(), peer, ways](const Status& status) {
      if (!status.ok()) return self->End(status);
      if (--*ways == 0) self->Ended(peer);
    };
    const int node = NodeOf(request_.place, peer);
    transport_->Receive(
        node, name, {type, 0, in.count, {.whole = in_[peer].count, .about = request_.about}},
        request_.output.subspan(in.begin * size, in.count * size),
        [ended, bytes = in.count * size](StatusOr<std::span<std::byte>> payload, const Frame&) {
          if (payload.ok() && payload->size() != bytes) {
            return ended(Invalid("the ranks gave an all-to-all different lengths"));
          }
          ended(payload.status());
        });
    transport_->Send(node, name,
                     {type, 0, out.count, {.whole = out_[peer].count, .about = request_.about}},
                     request_.input.subspan(out.begin * size, out.count * size), ended);
  }

  void Ended(int peer) {
    Pair& pair = pairs_[peer];
    if (++pair.ended < pair.chunks) return Begin(peer);
    if (--open_ == 0) End(OkStatus());
  }

  void End(const Status& status) {
    if (done_ != nullptr) std::exchange(done_, nullptr)(Annotate(status, "all-to-all"));
  }

  Transport* const transport_;
  const AllToAllRequest request_;
  const std::vector<Range> out_, in_;  // by rank
  std::vector<Pair> pairs_;            // by rank
  int open_ = 0;                       // pairs that are not through
  std::function<void(Status)> done_;   // null once it has run
};

}  // namespace

void StartAllToAll(Transport* transport, const AllToAllRequest& request,
                   std::function<void(Status)> done) {
  if (Status status = ValidateAllToAll(request); !status.ok()) return done(status);
  std::make_shared<PairwiseExchange>(transport, request, std::move(done))->Start();
}

}  // namespace ringwood
