#include "client/grpc/calls.h"

#include <algorithm>

#include "base/silence.h"
#include "proto/call.h"
#include "proto/token.h"

namespace ringwood {
namespace {

// The largest answer is a manifest: 64 bytes for each piece of 1 MiB.
constexpr int kMaxAnswerBytes = 64 << 20;

// Of a server that is being started again. The first is gRPC's least; an attempt that gets no
// answer at all, as while its host is away, is given up after the last.
constexpr int kFirstBackoffMilliseconds = 100;
constexpr int kLongestBackoffMilliseconds = 200;
constexpr int kLongestAttemptMilliseconds = 2000;

grpc::ChannelArguments Arguments(std::optional<Duration> silence) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  // A member's connections are its own: no sharing by address inside the process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (silence) {
    const double seconds = ToSeconds(*silence);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                     static_cast<int>(1000 * PingAfterSeconds(seconds)));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                     static_cast<int>(1000 * PongWithinSeconds(seconds)));
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  return arguments;
}

}  // namespace

Calls::Scope::Scope(Calls* calls, grpc::ClientContext* context, Duration timeout)
    : calls_(calls), context_(context) {
  context->set_deadline(DeadlineIn(timeout));
  absl::MutexLock lock(&calls_->mutex_);
  calls_->active_.insert(context);
  if (!calls_->reason_.ok()) context->TryCancel();
}

Calls::Scope::~Scope() {
  absl::MutexLock lock(&calls_->mutex_);
  calls_->active_.erase(context_);
}

void Calls::Cancel(const Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (!reason_.ok() || reason.ok()) return;
  reason_ = reason;
  for (grpc::ClientContext* context : active_) context->TryCancel();
}

Status Calls::Translate(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return OkStatus();
  absl::MutexLock lock(&mutex_);
  if (!reason_.ok()) return reason_;
  return Annotate(FromGrpc(status), what);
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::string& token,
                                           std::optional<Duration> silence) {
  return OpenChannel(address, Arguments(silence), token);
}

std::shared_ptr<grpc::Channel> MakeEagerChannel(const std::string& address,
                                                const std::string& token,
                                                std::optional<Duration> silence) {
  grpc::ChannelArguments arguments = Arguments(silence);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoffMilliseconds);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestBackoffMilliseconds);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kLongestAttemptMilliseconds);
  return OpenChannel(address, arguments, token);
}

}  // namespace ringwood
