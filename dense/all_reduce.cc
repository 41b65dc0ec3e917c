#include "dense/all_reduce.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "dense/chunks.h"

namespace ringwood {
namespace {

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

// Payload that this rank sends.
uint64_t SentBytes(const Collective& collective) {
  const size_t chunks = ChunksOf(collective);
  uint64_t sent = 0;
  const auto add = [&](size_t chunk, uint64_t times) {
    const std::vector<Range> slots = SlotsOf(collective, chunk);
    for (const Step& step : collective.schedule) {
      if (step.op != Op::kSend) continue;
      sent += times * slots[step.slot].count * SizeOf(WireTypeOf(collective, step.exact));
    }
  };
  if (chunks > 1) add(0, chunks - 1);  // all but the last are alike
  add(chunks - 1, 1);
  return sent;
}

// Where nothing is rounded the error is sent in full: output = input + error, no error stays.
void AddError(const AllReduceRequest& request) {
  const size_t elements = request.error.size();
  Reduce(DataType::kFloat32, ReduceOp::kSum, request.input.data(), request.error.data(),
         request.output.data(), elements);
  std::fill(request.next_error.begin(), request.next_error.end(), 0.0f);
}

}  // namespace

CollectiveSpec SpecOf(const AllReduceRequest& request) {
  CollectiveSpec spec;
  spec.type = request.type;
  spec.elements = request.input.size() / SizeOf(request.type);
  spec.bf16 = request.wire == "bf16";
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
  run.self = request.place.rank;
  run.name = request.name;
  Values& values = run.values;
  values.type = request.type;
  values.op = request.op;
  values.input = request.input;
  values.output = request.output;
  values.rounded = run.collective->rounded;
  values.error = request.error;
  values.next_error = request.next_error;
  if (request.wire == "bf16" && !values.rounded) {
    AddError(request);
    values.input = request.output;
  }
  if (request.place.world == 1 || request.input.empty()) {
    if (!request.input.empty() && values.input.data() != request.output.data()) {
      std::memcpy(request.output.data(), request.input.data(), request.input.size());
    }
    return done(AllReduceResult{Digest(request.output), 0});
  }
  const uint64_t sent = SentBytes(*run.collective);
  RunCollective(std::move(run), [done = std::move(done), sent](StatusOr<uint64_t> digest) {
    if (!digest.ok()) return done(Annotate(digest.status(), "all-reduce"));
    done(AllReduceResult{*digest, sent});
  });
}

void StartBroadcast(Transport* transport, const BroadcastRequest& request,
                    std::function<void(Status)> done) {
  const int rank = request.place.rank, world = request.place.world;
  if (world < 1 || rank < 0 || rank >= world || request.root < 0 || request.root >= world) {
    return done(Invalid(absl::StrFormat("broadcast from rank %d by rank %d of world %d",
                                        request.root, rank, world)));
  }
  if (world == 1 || request.data.empty()) return done(OkStatus());
  CollectiveSpec spec;
  spec.verb = Verb::kBroadcast;
  spec.type = DataType::kUInt8;
  spec.elements = request.data.size();
  spec.root = request.root;
  RunRequest run;
  run.transport = transport;
  run.collective = std::make_shared<const Collective>(CollectiveFor(spec, request.place));
  run.self = rank;
  run.name = request.name;
  run.values.type = spec.type;
  run.values.input = request.data;
  run.values.output = request.data;
  RunCollective(std::move(run), [done = std::move(done)](StatusOr<uint64_t> digest) {
    done(Annotate(digest.status(), "broadcast"));
  });
}

}  // namespace ringwood
