#include "client/pull/pull.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/net/endpoint.h"

namespace ringwood {
namespace {

// The death of a rank, or the end of its epoch, ends a checkpoint; the next one may be well.
bool AnotherMayBeWell(const Status& failed) {
  return failed.code() == StatusCode::kUnavailable || failed.code() == StatusCode::kAborted;
}

}  // namespace

Status Check(const PullOptions& options) {
  if (options.server.empty()) return Invalid("no server is named: give its HOST:PORT");
  if (const Status named = CheckEndpoints(options.server); !named.ok()) {
    return Annotate(named, "the server");
  }
  const double seconds = options.timeout_seconds;
  if (seconds > 0 && seconds <= kMaxPullSeconds) return OkStatus();
  return Invalid(absl::StrFormat("a timeout of %g s: above 0 and at most %.0f s are possible",
                                 seconds, kMaxPullSeconds));
}

StatusOr<v1::CheckpointManifest> PullCheckpoint(const PullOptions& options, ReaderClient* client,
                                                const std::function<TimePoint()>& now) {
  const TimePoint end = now() + Seconds(options.timeout_seconds);
  const auto left = [&] { return std::max(0.0, ToSeconds(end - now())); };
  v1::HoldRequest wish;
  wish.set_job(options.job);
  if (options.newest_stored) {
    wish.set_timeout_seconds(left());
    return client->Hold(wish);
  }
  Status before;
  for (;;) {
    v1::PullRequest request;
    request.set_job(options.job);
    request.set_timeout_seconds(left());
    const StatusOr<v1::PullResponse> due = client->Pull(request);
    if (!due.ok()) return before.ok() ? due.status() : Annotate(due.status(), Message(before));
    wish.set_job(due->job());
    wish.set_epoch(due->epoch());
    wish.set_step(due->step());
    wish.set_timeout_seconds(left());
    auto held = client->Hold(wish);
    if (held.ok() || !AnotherMayBeWell(held.status()) || left() == 0) return held;
    before = held.status();
  }
}

StatusOr<std::unique_ptr<Pulled>> Pulled::Open(const PullOptions& options,
                                               std::unique_ptr<ReaderClient> client) {
  RW_RETURN_IF_ERROR(Check(options));
  auto manifest = PullCheckpoint(options, client.get(), [] { return Now(); });
  if (!manifest.ok()) return Annotate(manifest.status(), "pull from " + options.server);
  return std::unique_ptr<Pulled>(new Pulled(std::move(client), *std::move(manifest)));
}

Status Pulled::Read(const v1::StoredItem& item, const ReaderClient::Take& take) {
  v1::LoadRequest request;
  request.set_epoch(manifest_.epoch());
  request.set_step(manifest_.step());
  request.set_item(item.name());
  request.set_scope(item.scope());
  if (item.scope() == v1::SCOPE_OWN) request.set_rank(item.rank());
  return client_->Load(request, item.bytes(), take);
}

Status Pulled::Read(const v1::StoredItem& item, std::span<std::byte> out) {
  if (out.size() != item.bytes()) {
    return Invalid(absl::StrFormat("the item '%s' of step %d has %d bytes, not %d", item.name(),
                                   manifest_.step(), item.bytes(), out.size()));
  }
  size_t at = 0;
  return Read(item, [&](std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), out.begin() + at);
    at += bytes.size();
    return OkStatus();
  });
}

}  // namespace ringwood
