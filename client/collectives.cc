#include "client/collectives.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/buffer.h"

namespace ringwood {
namespace {

// Shared by the caller and the net loop: whoever is later frees it.
struct Running {
  explicit Running(size_t bytes) : buffer(bytes) {}
  Buffer<std::byte> buffer;
  absl::Mutex mutex;
  bool done ABSL_GUARDED_BY(mutex) = false;
  Status status ABSL_GUARDED_BY(mutex);
};

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

Status Collectives::AllReduce(std::span<std::byte> data, DataType type, ReduceOp op,
                              std::optional<Strategy> strategy) {
  const Place& place = connection_->place();
  for (size_t at = 0; at < data.size(); at += kPieceBytes) {
    const std::span<std::byte> piece = data.subspan(at, std::min(kPieceBytes, data.size() - at));
    const uint64_t call = ++calls_;
    RW_RETURN_IF_ERROR(
        Run(piece, "allreduce", [=](Transport* transport, std::span<std::byte> bytes, auto done) {
          AllReduceRequest request{};
          request.rank = place.rank;
          request.world = place.world;
          request.lane = Lane::kImmediate;
          request.round = call;
          request.type = type;
          request.op = op;
          request.input = bytes;
          request.output = bytes;
          request.hosts = &place.hosts;
          request.cost = place.cost;
          request.strategy = strategy;
          StartAllReduce(transport, request,
                         [done](StatusOr<AllReduceResult> result) { done(result.status()); });
        }));
  }
  return OkStatus();
}

Status Collectives::Broadcast(std::span<std::byte> data, int root) {
  const Place& place = connection_->place();
  for (size_t at = 0; at < data.size(); at += kPieceBytes) {
    const std::span<std::byte> piece = data.subspan(at, std::min(kPieceBytes, data.size() - at));
    const uint64_t call = ++calls_;
    RW_RETURN_IF_ERROR(
        Run(piece, "broadcast", [=](Transport* transport, std::span<std::byte> bytes, auto done) {
          BroadcastRequest request{};
          request.rank = place.rank;
          request.world = place.world;
          request.root = root;
          request.lane = Lane::kImmediate;
          request.round = call;
          request.data = bytes;
          StartBroadcast(transport, request, done);
        }));
  }
  return OkStatus();
}

Status Collectives::ReduceScatter(std::span<std::byte> data, DataType type, ReduceOp op) {
  return RunShares(data, type, op, "reduce-scatter", StartReduceScatter, true);
}

Status Collectives::AllGather(std::span<std::byte> data, DataType type) {
  return RunShares(data, type, ReduceOp::kSum, "all-gather", StartAllGather, false);
}

// A piece takes the next elements of every share, so that its shares are parts of those of the
// whole.
Status Collectives::RunShares(std::span<std::byte> data, DataType type, ReduceOp op,
                              const char* what, StartShares start, bool scatters) {
  const Place& place = connection_->place();
  const size_t size = SizeOf(type);
  const std::vector<Range> shares = CutEvenly(data.size() / size, place.world);
  const size_t part = std::max<size_t>(1, kPieceBytes / size / shares.size());
  std::vector<std::byte> piece;
  for (size_t at = 0; at < shares[0].count; at += part) {
    const auto each = [&](auto copy) {  // of the piece, and its place in the data
      size_t packed = 0;
      for (size_t s = 0; s < shares.size(); ++s) {
        const size_t begin = std::min(at, shares[s].count);
        const size_t bytes = std::min(part, shares[s].count - begin) * size;
        copy(s, packed, (shares[s].begin + begin) * size, bytes);
        packed += bytes;
      }
      return packed;
    };
    piece.resize(each([](size_t, size_t, size_t, size_t) {}));
    each([&](size_t, size_t packed, size_t there, size_t bytes) {
      std::copy_n(data.begin() + there, bytes, piece.begin() + packed);
    });
    const uint64_t call = ++calls_;
    RW_RETURN_IF_ERROR(
        Run(piece, what, [=](Transport* transport, std::span<std::byte> bytes, auto done) {
          SharesRequest request{};
          request.rank = place.rank;
          request.world = place.world;
          request.round = call;
          request.type = type;
          request.op = op;
          request.data = bytes;
          start(transport, request, done);
        }));
    each([&](size_t share, size_t packed, size_t there, size_t bytes) {
      if (scatters && share != static_cast<size_t>(place.rank)) return;
      std::copy_n(piece.begin() + packed, bytes, data.begin() + there);
    });
  }
  return OkStatus();
}

Status Collectives::Run(std::span<std::byte> piece, const char* what, StartPiece start) {
  RW_RETURN_IF_ERROR(connection_->status());
  auto running = std::make_shared<Running>(piece.size());
  std::copy(piece.begin(), piece.end(), running->buffer.span().begin());
  Connection* const connection = connection_;
  const bool posted = connection->net()->Post([connection, running, start = std::move(start)] {
    start(connection->transport(), running->buffer.span(), [running](Status status) {
      absl::MutexLock lock(&running->mutex);
      running->status = status;
      running->done = true;
    });
  });
  if (!posted) return Internal("the net loop takes no work");
  Status status;
  {
    absl::MutexLock lock(&running->mutex);
    const bool done = running->mutex.AwaitWithTimeout(absl::Condition(&running->done),
                                                      absl::Seconds(kLongestWaitSeconds));
    status = done ? running->status : TimedOut("no answer in time");
  }
  if (!status.ok()) {
    status = Annotate(connection->Named(status),
                      absl::StrFormat("rank %d: %s", connection->place().rank, what));
    connection->Fail(status);
    connection->Drain();  // the transport is closed then: nothing writes the buffer any more
    return status;
  }
  std::copy_n(running->buffer.span().begin(), piece.size(), piece.begin());
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
    default:
      return Invalid(absl::StrFormat(
          "an average of %s: average float32 or float64, or take the sum and divide it",
          NameOf(type)));
  }
}

}  // namespace ringwood
