#include "dense/all_reduce.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "dense/chunks.h"

namespace ringwood {
namespace {

// Of codes alone.
Status ValidateReach(const AllReduceRequest& request, const std::string& format) {
  const int most = MostLatticeTerms(LatticeLevels(CodeBits(request.wire)));
  if (request.place.world > most) {
    return Invalid(absl::StrFormat("%sis for up to %d ranks, not %d: take bf16", format, most,
                                   request.place.world));
  }
  const size_t blocks = LatticeBlocks(request.error.size());
  if (request.reach.size() != blocks || request.next_reach.size() != blocks) {
    return Invalid(absl::StrFormat("%sneeds the reach of %d blocks, got %d and %d", format, blocks,
                                   request.reach.size(), request.next_reach.size()));
  }
  return OkStatus();
}

// Of a wire format that rounds.
Status ValidateWire(const AllReduceRequest& request, const std::string& who) {
  if (request.wire != "bf16" && CodeBits(request.wire) == 0) {
    return Invalid(who + "unknown wire format \"" + request.wire +
                   "\"; there are: fp32, bf16, int8, int4");
  }
  const std::string format = who + "the wire format " + request.wire + " ";
  if (request.type != DataType::kFloat32 || request.op != ReduceOp::kSum) {
    return Invalid(absl::StrFormat("%sis for sums of float32, not for %s of %s", format,
                                   NameOf(request.op), NameOf(request.type)));
  }
  const size_t elements = SpecOf(request).elements;
  if (request.error.size() != elements || request.next_error.size() != elements) {
    return Invalid(absl::StrFormat("%sneeds errors of %d elements, got %d and %d", format, elements,
                                   request.error.size(), request.next_error.size()));
  }
  if (!request.input.empty() && request.input.data() == request.output.data()) {
    return Invalid(format + "needs an output beside the input");
  }
  return CodeBits(request.wire) == 0 ? OkStatus() : ValidateReach(request, format);
}

// Codes may have others than an input and an output.
Status ValidateEnds(const AllReduceRequest& request, const std::string& who) {
  const CodedEnds& ends = request.coded;
  if (ends.pieces.empty() && ends.packed.empty()) return OkStatus();
  const int bits = CodeBits(request.wire);
  if (bits == 0 || request.place.world == 1) {
    return Invalid(who + "pieces and packed sums are for codes of several ranks");
  }
  const size_t elements = request.error.size();
  size_t end = 0;
  for (const CodedPiece& piece : ends.pieces) {
    if (piece.begin % kLatticePack != 0 || piece.begin / kLatticePack != LatticePacks(end)) {
      return Invalid(
          absl::StrFormat("%sa piece at %d behind one that ends at %d", who, piece.begin, end));
    }
    end = piece.begin + piece.count;
  }
  const size_t input = ends.pieces.empty() ? request.input.size() / sizeof(float) : elements;
  const size_t output = ends.packed.empty() || !request.output.empty()
                            ? request.output.size() / sizeof(float)
                            : elements;
  const size_t blocks = LatticeBlocks(elements);
  const size_t packed = PackedBytes(blocks, LatticeWidth(LatticeLevels(bits), request.place.world));
  if (input != elements || output != elements || end > elements ||
      (!ends.pieces.empty() && LatticeBlocks(end) != blocks) ||
      (!ends.packed.empty() && ends.packed.size() != packed)) {
    return Invalid(absl::StrFormat(
        "%serrors of %d elements, an input of %d, pieces up to %d, an output of %d and %d bytes of "
        "%d for a packed sum",
        who, elements, input, end, output, ends.packed.size(), packed));
  }
  return OkStatus();
}

Status Validate(const AllReduceRequest& request) {
  const Place& place = request.place;
  const std::string who =
      absl::StrFormat("all-reduce of round %d group %d: ", request.name.round, request.name.group);
  if (place.world < 1 || place.rank < 0 || place.rank >= place.world) {
    return Invalid(absl::StrFormat("%srank %d of world %d", who, place.rank, place.world));
  }
  if (!place.hosts.empty() && !IsComplete(place.hosts, place.world)) {
    return Invalid(absl::StrFormat("%sthe hosts have %d ranks, not the %d of the world", who,
                                   RanksOf(place.hosts), place.world));
  }
  if (SizeOf(request.type) == 0) return Invalid(who + "unknown element type");
  if (request.coded.pieces.empty() && request.coded.packed.empty() &&
      (request.input.size() != request.output.size() ||
       request.input.size() % SizeOf(request.type) != 0)) {
    return Invalid(absl::StrFormat("%sinput of %d and output of %d bytes for %s elements", who,
                                   request.input.size(), request.output.size(),
                                   NameOf(request.type)));
  }
  RW_RETURN_IF_ERROR(ValidateEnds(request, who));
  return request.wire == "fp32" ? OkStatus() : ValidateWire(request, who);
}

// Payload that this rank sends.
uint64_t SentBytes(const Collective& collective) {
  const size_t chunks = ChunksOf(collective);
  uint64_t sent = 0;
  const auto add = [&](size_t chunk, uint64_t times) {
    const std::vector<Range> slots = SlotsOf(collective, chunk);
    for (const Step& step : collective.schedule) {
      if (step.op != Op::kSend) continue;
      sent += times * MessageBytes(collective, slots[step.slot].count, step);
    }
  };
  if (chunks > 1) add(0, chunks - 1);  // all but the last are alike
  add(chunks - 1, 1);
  return sent;
}

// What a rank alone does.
void CopyAcross(const Values& values) {
  if (values.input.empty() || values.input.data() == values.output.data()) return;
  std::memcpy(values.output.data(), values.input.data(), values.input.size());
}

// Where nothing is rounded the error is sent in full: output = input + error, no error stays.
void AddError(const AllReduceRequest& request) {
  std::ranges::copy(request.reach, request.next_reach.begin());
  const size_t elements = request.error.size();
  Reduce(DataType::kFloat32, ReduceOp::kSum, request.input.data(), request.error.data(),
         request.output.data(), elements);
  std::fill(request.next_error.begin(), request.next_error.end(), 0.0f);
}

// A broadcast or a reduce.
template <typename Request>
void StartRooted(Transport* transport, const Request& request, Verb verb, const Values& values,
                 std::function<void(Status)> done) {
  const int rank = request.place.rank, world = request.place.world;
  if (world < 1 || rank < 0 || rank >= world || request.root < 0 || request.root >= world) {
    return done(Invalid(absl::StrFormat("%s with root %d by rank %d of world %d", NameOf(verb),
                                        request.root, rank, world)));
  }
  if (world == 1 || values.input.empty()) {
    CopyAcross(values);
    return done(OkStatus());
  }
  CollectiveSpec spec;
  spec.verb = verb;
  spec.type = values.type;
  spec.elements = values.input.size() / SizeOf(values.type);
  spec.root = request.root;
  RunRequest run;
  run.transport = transport;
  run.collective = std::make_shared<const Collective>(CollectiveFor(spec, request.place));
  run.self = NodeOf(request.place, rank);
  run.name = request.name;
  run.values = values;
  run.asked = request.asked;
  RunCollective(std::move(run), [done = std::move(done), verb](StatusOr<uint64_t> digest) {
    done(Annotate(digest.status(), NameOf(verb)));
  });
}

}  // namespace

CollectiveSpec SpecOf(const AllReduceRequest& request) {
  CollectiveSpec spec;
  spec.type = request.type;
  spec.elements = request.coded.pieces.empty() ? request.input.size() / SizeOf(request.type)
                                               : request.error.size();
  spec.wire = request.wire;
  spec.chunk_bytes = request.chunk_bytes;
  spec.strategy = request.strategy;
  return spec;
}

void StartAllReduce(Transport* transport, const AllReduceRequest& request,
                    std::function<void(StatusOr<AllReduceResult>)> done) {
  if (Status status = Validate(request); !status.ok()) return done(status);
  RunRequest run;
  run.transport = transport;
  run.collective =
      std::make_shared<const Collective>(CollectiveFor(SpecOf(request), request.place));
  run.self = NodeOf(request.place, request.place.rank);
  run.name = request.name;
  run.asked = request.asked;
  Values& values = run.values;
  values.type = request.type;
  values.op = request.op;
  values.input = request.input;
  values.output = request.output;
  values.rounded = run.collective->rounded;
  values.code_bits = run.collective->code_bits;
  values.error = request.error;
  values.next_error = request.next_error;
  values.reach = request.reach;
  values.next_reach = request.next_reach;
  values.less = request.less;
  values.terms = request.place.world;
  values.coded = request.coded;
  if (request.wire != "fp32" && !values.rounded && values.code_bits == 0) {
    AddError(request);
    values.input = request.output;
  }
  if (request.place.world == 1 || run.collective->elements == 0) {
    CopyAcross(values);
    return done(AllReduceResult{Digest(request.output), 0});
  }
  const uint64_t sent = SentBytes(*run.collective);
  const bool coded = run.collective->code_bits != 0;
  auto ended = [done = std::move(done), sent, coded, reach = request.reach,
                next = request.next_reach](StatusOr<uint64_t> digest) {
    if (!digest.ok()) return done(Annotate(digest.status(), "all-reduce"));
    if (!coded) return done(AllReduceResult{*digest, sent});
    // Sums are digested as codes: what they mean is part of the result.
    const bool non_finite =
        std::ranges::any_of(next, [](BlockReach reach) { return reach > kLargestReach; });
    done(AllReduceResult{Combine(*digest, Digest(std::as_bytes(reach))), sent, non_finite});
  };
  RunCollective(std::move(run), std::move(ended), request.reached);
}

void StartBroadcast(Transport* transport, const BroadcastRequest& request,
                    std::function<void(Status)> done) {
  if (SizeOf(request.type) == 0 || request.data.size() % SizeOf(request.type) != 0) {
    return done(Invalid(absl::StrFormat("broadcast: %d bytes of %s elements", request.data.size(),
                                        NameOf(request.type))));
  }
  Values values;
  values.type = request.type;
  values.input = request.data;
  values.output = request.data;
  StartRooted(transport, request, Verb::kBroadcast, values, std::move(done));
}

void StartReduce(Transport* transport, const ReduceRequest& request,
                 std::function<void(Status)> done) {
  if (request.input.size() != request.output.size() || SizeOf(request.type) == 0 ||
      request.input.size() % SizeOf(request.type) != 0) {
    return done(Invalid(
        absl::StrFormat("reduce: input of %d and output of %d bytes for %s elements",
                        request.input.size(), request.output.size(), NameOf(request.type))));
  }
  Values values;
  values.type = request.type;
  values.op = request.op;
  values.input = request.input;
  values.output = request.output;
  StartRooted(transport, request, Verb::kReduce, values, std::move(done));
}

}  // namespace ringwood
