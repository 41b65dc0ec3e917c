#include "client/connection/collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/buffer.h"
#include "base/out_of_memory.h"
#include "base/unaligned.h"
#include "client/connection/epoch_link.h"
#include "dense/arithmetic/half.h"

namespace ringwood {
namespace {

// What tells calls apart; a broadcast adds its root.
enum About : uint64_t { kReducesAll, kScatters, kGathers, kBroadcasts };

template <float (*Widen)(uint16_t), uint16_t (*Round)(float)>
void DivideHalves(std::span<std::byte> data, double divisor) {
  for (size_t i = 0; i < data.size() / sizeof(uint16_t); ++i) {
    const float value = Widen(ElementAt<uint16_t>(data.data(), i));
    SetElement(data.data(), i, Round(static_cast<float>(value / divisor)));
  }
}

template <typename T>
void DivideAll(std::span<std::byte> data, double divisor) {
  for (size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + at, sizeof value);
    value = static_cast<T>(value / divisor);
    std::memcpy(data.data() + at, &value, sizeof value);
  }
}

}  // namespace

struct Collectives::Slot {
  Buffer<std::byte> buffer;
  size_t bytes = 0;  // of the piece
  absl::Mutex mutex;
  bool done ABSL_GUARDED_BY(mutex) = false;
  Status status ABSL_GUARDED_BY(mutex);
};

Status Collectives::AllReduce(std::span<std::byte> data, DataType type, ReduceOp op,
                              std::optional<Strategy> strategy) {
  const Place& place = link_->place();
  return RunInOrder(
      data, "allreduce", [=, &place](Transport* transport, uint64_t call, Bytes bytes, auto done) {
        AllReduceRequest request{};
        request.place = place;
        request.name = {Lane::kImmediate, call};
        request.type = type;
        request.op = op;
        request.input = bytes;
        request.output = bytes;
        request.strategy = strategy;
        request.asked = {.whole = data.size() / std::max<size_t>(1, SizeOf(type)),
                         .about = kReducesAll};
        StartAllReduce(transport, request,
                       [done](StatusOr<AllReduceResult> result) { done(result.status()); });
      });
}

Status Collectives::Broadcast(std::span<std::byte> data, int root) {
  const Place& place = link_->place();
  const auto start = [=, &place](Transport* transport, uint64_t call, Bytes bytes, auto done) {
    BroadcastRequest request{};
    request.place = place;
    request.root = root;
    request.name.round = call;
    request.data = bytes;
    request.asked = {.whole = data.size(), .about = kBroadcasts + root};
    StartBroadcast(transport, request, done);
  };
  for (Bytes rest = data; !rest.empty();) {
    const Bytes part = rest.first(std::min(kMostAhead, rest.size()));
    rest = rest.subspan(part.size());
    if (ahead_.TooFar(part.size())) {
      RW_RETURN_IF_ERROR(Meet());
      ahead_.Met();
    }
    ahead_.Sent(part.size());
    RW_RETURN_IF_ERROR(RunInOrder(part, "broadcast", start));
  }
  return OkStatus();
}

Status Collectives::Meet() {
  std::byte nothing{};
  return AllReduce({&nothing, 1}, DataType::kUInt8, ReduceOp::kSum);
}

Status Collectives::ReduceScatter(std::span<std::byte> data, DataType type, ReduceOp op) {
  return RunShares(data, type, op, "reduce-scatter", StartReduceScatter, true);
}

Status Collectives::AllGather(std::span<std::byte> data, DataType type) {
  return RunShares(data, type, ReduceOp::kSum, "all-gather", StartAllGather, false);
}

// Pieces are parts of the data, one after the other.
Status Collectives::RunInOrder(Bytes data, const char* what, decltype(Call::start) start) {
  const auto piece = [data](size_t p) {
    const size_t at = p * kPieceBytes;
    return data.subspan(at, std::min(kPieceBytes, data.size() - at));
  };
  return Run({.what = what,
              .pieces = (data.size() + kPieceBytes - 1) / kPieceBytes,
              .bytes = [&](size_t p) { return piece(p).size(); },
              .fill = [&](size_t p, Bytes out) { std::ranges::copy(piece(p), out.begin()); },
              .start = std::move(start),
              .take = [&](size_t p, Bytes in) { std::ranges::copy(in, piece(p).begin()); }});
}

// A piece takes the next elements of every share, so that its shares are parts of those of the
// whole.
Status Collectives::RunShares(Bytes data, DataType type, ReduceOp op, const char* what,
                              StartShares start, bool scatters) {
  const Place& place = link_->place();
  const size_t size = SizeOf(type);
  const std::vector<Range> shares = CutEvenly(data.size() / size, place.world);
  const size_t part = std::max<size_t>(1, kPieceBytes / size / shares.size());
  const auto each = [&](size_t piece, auto copy) {  // copy(share, in the piece, in the data, bytes)
    size_t packed = 0;
    for (size_t s = 0; s < shares.size(); ++s) {
      const size_t begin = std::min(piece * part, shares[s].count);
      const size_t bytes = std::min(part, shares[s].count - begin) * size;
      copy(s, packed, (shares[s].begin + begin) * size, bytes);
      packed += bytes;
    }
    return packed;
  };
  return Run({.what = what,
              .pieces = (shares[0].count + part - 1) / part,
              .bytes = [&](size_t p) { return each(p, [](size_t, size_t, size_t, size_t) {}); },
              .fill =
                  [&](size_t p, Bytes out) {
                    each(p, [&](size_t, size_t packed, size_t there, size_t bytes) {
                      std::ranges::copy(data.subspan(there, bytes), out.begin() + packed);
                    });
                  },
              .start =
                  [&place, type, op, start, scatters, whole = data.size() / size](
                      Transport* transport, uint64_t call, Bytes bytes, auto done) {
                    SharesRequest request{};
                    request.place = place;
                    request.name.round = call;
                    request.type = type;
                    request.op = op;
                    request.data = bytes;
                    request.asked = {.whole = whole, .about = scatters ? kScatters : kGathers};
                    start(transport, request, done);
                  },
              .take =
                  [&](size_t p, Bytes in) {
                    each(p, [&](size_t share, size_t packed, size_t there, size_t bytes) {
                      if (scatters && share != static_cast<size_t>(place.rank)) return;
                      std::ranges::copy(in.subspan(packed, bytes), data.begin() + there);
                    });
                  }});
}

Status Collectives::Run(const Call& call) {
  const Status status = CatchOutOfMemory([&]() -> Status {
    size_t begun = 0;
    for (size_t ended = 0; ended < call.pieces; ++ended) {
      while (begun < call.pieces && begun < ended + kPieces) {
        RW_RETURN_IF_ERROR(Begin(call, begun++));
      }
      RW_RETURN_IF_ERROR(End(call, ended));
    }
    return OkStatus();
  });
  if (status.ok()) return status;
  for (std::shared_ptr<Slot>& slot : slots_) slot.reset();  // a piece may still be under way
  return status;
}

Status Collectives::Begin(const Call& call, size_t piece) {
  RW_RETURN_IF_ERROR(link_->status());
  std::shared_ptr<Slot>& slot = slots_[piece % kPieces];
  if (slot == nullptr) slot = std::make_shared<Slot>();
  slot->bytes = call.bytes(piece);
  if (slot->buffer.size() < slot->bytes) slot->buffer = Buffer<std::byte>(slot->bytes);
  call.fill(piece, slot->buffer.span().first(slot->bytes));
  {
    absl::MutexLock lock(&slot->mutex);
    slot->done = false;
  }
  const bool posted = link_->connection()->net()->Post([link = link_, slot, start = call.start,
                                                        number = ++calls_] {
    start(link->transport(), number, slot->buffer.span().first(slot->bytes), [slot](Status status) {
      absl::MutexLock lock(&slot->mutex);
      slot->status = status;
      slot->done = true;
    });
  });
  return posted ? OkStatus() : Internal("network queue full");
}

Status Collectives::End(const Call& call, size_t piece) {
  Slot& slot = *slots_[piece % kPieces];
  Progress* const progress = link_->connection()->progress();
  progress->Calls(++ended_);
  Status status;
  {
    absl::MutexLock lock(&slot.mutex);
    const bool done = slot.mutex.AwaitWithTimeout(absl::Condition(&slot.done),
                                                  absl::Seconds(kLongestWaitSeconds));
    status = done ? slot.status : TimedOut("no answer in time");
  }
  if (!status.ok()) status = link_->Named(status);  // still in the call, which may be why
  progress->Calls(0);
  if (!status.ok()) {
    status = Annotate(status, absl::StrFormat("rank %d: %s", link_->slot(), call.what));
    link_->Fail(status);
    link_->connection()
        ->Drain();  // the transport is closed then: nothing writes the buffers any more
    return status;
  }
  call.take(piece, slot.buffer.span().first(slot.bytes));
  return OkStatus();
}

Status Divide(std::span<std::byte> data, DataType type, double divisor) {
  switch (type) {
    case DataType::kFloat32:
      DivideAll<float>(data, divisor);
      return OkStatus();
    case DataType::kFloat64:
      DivideAll<double>(data, divisor);
      return OkStatus();
    case DataType::kBFloat16:
      DivideHalves<FromBFloat16, ToBFloat16>(data, divisor);
      return OkStatus();
    case DataType::kFloat16:
      DivideHalves<FromFloat16, ToFloat16>(data, divisor);
      return OkStatus();
    default:
      return Invalid(absl::StrFormat(
          "an average of %s: average a floating type, or take the sum and divide it",
          NameOf(type)));
  }
}

}  // namespace ringwood
