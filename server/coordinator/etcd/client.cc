#include "server/coordinator/etcd/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "etcd/rpc.grpc.pb.h"
#include "identity/explain.h"
#include "proto/call.h"
#include "proto/own_connection.h"

namespace ringwood {
namespace {

constexpr double kConnectSeconds = 0.25;  // for a member's connection; the next one may be faster
constexpr size_t kRounds = 2;             // that the time of a call is divided into, at first
constexpr double kPauseSeconds = 0.1;     // between two rounds over the members
constexpr double kExplainSeconds = 3;     // for all members, to say why connections fail
// A member that comes back is found again within a second.
constexpr Reconnection kWithinASecond{100, 1000, 1000};
constexpr size_t kMostMessageBytes = 300;  // of what a member says

// Errors that another member may not have.
bool AnotherMayAnswer(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::UNIMPLEMENTED:
      return false;
    default:
      return true;
  }
}

}  // namespace

struct EtcdClient::Member {
  Member(const std::string& at, const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : endpoint(at),
        channel(grpc::CreateCustomChannel(
            at, credentials, OwnConnection{.reconnection = kWithinASecond}.Arguments())),
        kv(etcdserverpb::KV::NewStub(channel)),
        lease(etcdserverpb::Lease::NewStub(channel)) {}
  const std::string endpoint;
  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<etcdserverpb::KV::Stub> kv;
  const std::unique_ptr<etcdserverpb::Lease::Stub> lease;
};

EtcdClient::EtcdClient(const EtcdAddress& address) : address_(address) {
  const auto credentials = address.credentials == nullptr ? grpc::InsecureChannelCredentials()
                                                          : address.credentials->ForCalling();
  for (const std::string& endpoint : address.endpoints) {
    members_.push_back(std::make_unique<Member>(endpoint, credentials));
  }
}

EtcdClient::~EtcdClient() = default;

Status EtcdClient::WhyRefused() const {
  const HostTrust* const trust =
      address_.credentials == nullptr ? nullptr : &address_.credentials->trust();
  const Duration share = Seconds(kExplainSeconds / static_cast<double>(members_.size()));
  for (const auto& member : members_) {
    const Status why = ExplainHost("etcd", member->endpoint, trust, share);
    if (why.ok()) continue;
    return Annotate(why, "--coord-store " + address_.text() +
                             (trust == nullptr ? " (etcds:// and --etcd-tls are for TLS)" : ""));
  }
  return OkStatus();
}

void EtcdClient::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (in_flight_ != nullptr) in_flight_->TryCancel();
}

// Round after round over the members, until one answers or the time is over.
Status EtcdClient::Try(const std::string& what, TimePoint until, const Call& call) {
  const TimePoint start = Now();
  const size_t first = first_;
  const size_t turns = kRounds * members_.size();
  std::map<std::string, std::string> answers;  // the last of each member
  bool full = false;                           // the database of one
  for (size_t i = 0; Now() < until; ++i) {
    if (i > 0 && i % members_.size() == 0) Pause();
    const size_t index = (first + i) % members_.size();
    Member& member = *members_[index];
    // A member that is silent, or waits for etcd's election, leaves their share of the time to
    // those behind it, and every member is asked again.
    const Duration share = (until - Now()) / static_cast<int64_t>(turns - i % turns);
    const grpc::Status status = CallMember(&member, share, call);
    if (status.ok()) {
      first_ = index;
      return OkStatus();
    }
    if (IsCancelled()) return Aborted("the server is stopping");
    const std::string said = Printable(status.error_message(), kMostMessageBytes);
    if (!AnotherMayAnswer(status.error_code())) {
      return Status(static_cast<StatusCode>(status.error_code()),
                    absl::StrFormat("etcd at %s refuses to %s: %s", member.endpoint, what, said));
    }
    // The last try has little time left: its end says less than what was answered before.
    const bool silent = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
    if (!silent || !answers.contains(member.endpoint)) answers[member.endpoint] = said;
    full |= status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  }
  std::string text;
  for (const auto& [endpoint, said] : answers) {
    text += (text.empty() ? "" : "; ") + endpoint + ": " + said;
  }
  return Unavailable(absl::StrFormat(
      "etcd could not %s in %.1f s (%s): %s; see `etcdctl endpoint status`, or correct "
      "--coord-store %s",
      what, ToSeconds(Now() - start), text.empty() ? "no time was left" : text,
      full ? "make room with `etcdctl compact`, `etcdctl defrag` and `etcdctl alarm disarm`"
           : "most of its members must be up and reach each other",
      address_.text()));
}

// gRPC connects only while somebody waits for it, and fails a call at once while it does not: so
// the connection comes first.
grpc::Status EtcdClient::CallMember(Member* member, Duration share, const Call& call) {
  if (!member->channel->WaitForConnected(DeadlineIn(std::min(share, Seconds(kConnectSeconds))))) {
    return {grpc::StatusCode::UNAVAILABLE, "no connection"};
  }
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(share));
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return grpc::Status::CANCELLED;
    in_flight_ = &context;
  }
  grpc::Status status = call(*member, &context);
  absl::MutexLock lock(&mutex_);
  in_flight_ = nullptr;
  return cancelled_ ? grpc::Status::CANCELLED : status;
}

void EtcdClient::Pause() {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&cancelled_), absl::Seconds(kPauseSeconds));
}

bool EtcdClient::IsCancelled() {
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

StatusOr<std::optional<mvccpb::KeyValue>> EtcdClient::Get(const std::string& key, TimePoint until) {
  etcdserverpb::RangeRequest request;
  request.set_key(key);
  etcdserverpb::RangeResponse response;
  RW_RETURN_IF_ERROR(Try("read " + key, until, [&](Member& member, grpc::ClientContext* context) {
    return member.kv->Range(context, request, &response);
  }));
  if (response.kvs().empty()) return std::optional<mvccpb::KeyValue>();
  return std::optional(response.kvs(0));
}

StatusOr<etcdserverpb::TxnResponse> EtcdClient::Txn(const etcdserverpb::TxnRequest& request,
                                                    TimePoint until) {
  etcdserverpb::TxnResponse response;
  RW_RETURN_IF_ERROR(Try("write under " + address_.prefix, until,
                         [&](Member& member, grpc::ClientContext* context) {
                           return member.kv->Txn(context, request, &response);
                         }));
  if (response.responses_size() ==
      (response.succeeded() ? request.success_size() : request.failure_size())) {
    return response;
  }
  return Internal("etcd answered a transaction with " + std::to_string(response.responses_size()) +
                  " results: is it etcd 3.4 or newer?");
}

StatusOr<EtcdLease> EtcdClient::Grant(int64_t seconds, TimePoint until) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(seconds);
  etcdserverpb::LeaseGrantResponse response;
  RW_RETURN_IF_ERROR(Try("grant a lease", until, [&](Member& member, grpc::ClientContext* context) {
    return member.lease->LeaseGrant(context, request, &response);
  }));
  if (!response.error().empty()) {
    return Unavailable("etcd grants no lease: " + Printable(response.error(), kMostMessageBytes));
  }
  return EtcdLease{response.id(), response.ttl()};
}

StatusOr<int64_t> EtcdClient::KeepAlive(int64_t lease, TimePoint until) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse response;
  RW_RETURN_IF_ERROR(
      Try("keep the leader's lease", until, [&](Member& member, grpc::ClientContext* context) {
        const auto stream = member.lease->LeaseKeepAlive(context);
        const bool answered = stream->Write(request) && stream->Read(&response);
        if (answered) context->TryCancel();  // a member that would not end it costs no time
        const grpc::Status status = stream->Finish();
        if (answered) return grpc::Status::OK;
        if (!status.ok()) return status;
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "it ended the stream");
      }));
  return std::max<int64_t>(response.ttl(), 0);
}

Status EtcdClient::Revoke(int64_t lease, TimePoint until) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse response;
  return Try("end a lease", until, [&](Member& member, grpc::ClientContext* context) {
    return member.lease->LeaseRevoke(context, request, &response);
  });
}

std::optional<mvccpb::KeyValue> ReadBy(const etcdserverpb::ResponseOp& op) {
  if (op.response_range().kvs().empty()) return std::nullopt;
  return op.response_range().kvs(0);
}

}  // namespace ringwood
