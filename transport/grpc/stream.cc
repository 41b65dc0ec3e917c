#include "transport/grpc/stream.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <climits>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/net/endpoint.h"
#include "base/random.h"
#include "proto/call.h"
#include "proto/own_connection.h"
#include "transport/port_range.h"

namespace ringwood {
namespace {

constexpr char kMethod[] = "/ringwood.v1.Data/Exchange";
constexpr Reconnection kPeerReconnection{100, 1'000, 5'000};
// A connection is closed that does not complete the handshakes of TLS and HTTP/2 in time (peers on
// a loaded machine try again), or that has no stream for so long.
constexpr int kHandshakeMilliseconds = 10'000;
constexpr int kIdleConnectionMilliseconds = 60'000;
constexpr int kLookaheadBytes = 4 << 20;  // HTTP/2's own window: a fast, distant link stays full

std::vector<std::byte> BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::vector<std::byte> bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    const auto* const begin = reinterpret_cast<const std::byte*>(slice.begin());
    bytes.insert(bytes.end(), begin, begin + slice.size());
  }
  return bytes;
}

// Common to both ends of a stream. gRPC calls OnDone, which deletes the object, only after
// Release: it waits for the server's Finish and for the client's holds.
template <class Reactor>
class ReactorStream : public Reactor, public GrpcStream {
 public:
  void Start(StreamEvents events) override {
    events_ = std::move(events);
    Begin();
  }
  void Read() override {
    {
      absl::MutexLock lock(&mutex_);
      reading_ = true;
    }
    Reactor::StartRead(&incoming_);
  }
  void Write(std::span<const std::byte> head, std::span<const std::byte> data) override {
    const grpc::Slice slices[] = {{head.data(), head.size()}, {data.data(), data.size()}};
    outgoing_ = grpc::ByteBuffer(slices, 2);
    {
      absl::MutexLock lock(&mutex_);
      writing_ = true;
    }
    Reactor::StartWrite(&outgoing_);
  }
  void Release(std::deque<std::vector<std::byte>> last) override {
    bool drain = false, idle = false;
    {
      absl::MutexLock lock(&mutex_);
      released_ = true;
      last_ = std::move(last);
      drain = drains_ && !std::exchange(reading_, true);
      idle = !std::exchange(writing_, true);
    }
    if (drain) Reactor::StartRead(&incoming_);
    if (idle) OnWriteDone(true);
  }

  void OnReadDone(bool ok) override {
    std::vector<std::byte> piece = BytesOf(incoming_);
    incoming_.Clear();
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
      if (!released_) {
        return ok ? events_.arrived(std::move(piece)) : events_.gone("it closed its connection");
      }
      if (!drains_) return;
      if (ok) reading_ = true;
    }
    ok ? Reactor::StartRead(&incoming_) : Drained();
  }
  // gRPC may call this inside StartWrite, so the lock is never held across one. Events are told
  // under the lock: after Release the loop that they are posted to may be gone.
  void OnWriteDone(bool ok) override {
    std::vector<std::byte> last;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = released_;  // a released stream has its last words to say, then its end
      if (!released_) return events_.written(ok);
      if (!last_.empty()) {
        last = std::move(last_.front());
        last_.pop_front();
      }
    }
    if (last.empty() || !ok) return End();
    const grpc::Slice slice(last.data(), last.size());
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    Reactor::StartWrite(&outgoing_);
  }

 protected:
  // A call learns of its end only after everything that it has not read, so a released one reads
  // on, at most a window. A server's end waits for nothing.
  explicit ReactorStream(bool drains) : drains_(drains) {}
  virtual void Begin() {}
  virtual void End() = 0;    // once, with nothing left to write
  virtual void Drained() {}  // once after Release where the stream drains: nothing left to read

 private:
  const bool drains_;
  StreamEvents events_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::vector<std::byte>> last_ ABSL_GUARDED_BY(mutex_);
};

class ServerStream : public ReactorStream<grpc::ServerGenericBidiReactor> {
 public:
  explicit ServerStream(std::optional<IdentityName> caller)
      : ReactorStream(false), caller_(std::move(caller)) {}
  std::optional<IdentityName> Caller() const override { return caller_; }
  void OnDone() override { delete this; }

 private:
  void End() override { Finish(grpc::Status::OK); }

  const std::optional<IdentityName> caller_;
};

// Ends a call at once.
class RefusedStream : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusedStream(const grpc::Status& why) { Finish(why); }
  void OnDone() override { delete this; }
};

// Calls that have not ended. gRPC 1.51 must not lose its last channel on a thread of its own (that
// thread would wait for itself), so a listener, which keeps a server, outlives its calls.
class Calls {
 public:
  void Add() {
    absl::MutexLock lock(&mutex_);
    ++count_;
  }
  void Remove() {
    absl::MutexLock lock(&mutex_);
    --count_;
  }
  void AwaitNone(double seconds) {
    absl::MutexLock lock(&mutex_);
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ == 0; };
    mutex_.AwaitWithTimeout(absl::Condition(&none), absl::Seconds(seconds));
  }

 private:
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ClientStream
    : public ReactorStream<grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  ClientStream(const std::string& endpoint, const Peer& peer, const GrpcOptions& options,
               std::shared_ptr<Calls> calls)
      : ReactorStream(true), calls_(std::move(calls)) {
    calls_->Add();
    grpc::ChannelArguments arguments =
        OwnConnection{.reconnection = kPeerReconnection}.Arguments();  // one a pair and epoch
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
    arguments.SetMaxReceiveMessageSize(kPieceBytes);
    if (options.credentials != nullptr) SetTlsArguments(&arguments);
    const auto credentials = options.credentials != nullptr
                                 ? options.credentials->ForCalling(peer.role, peer.slot)
                                 : grpc::InsecureChannelCredentials();
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(endpoint, credentials, arguments));
  }
  // The peer answers the end of our half with its own; if it does not, the call is cancelled. The
  // alarm's hold outlasts this call: the last write may end, and the first hold with it, meanwhile.
  void Release(std::deque<std::vector<std::byte>> last) override {
    AddHold();
    linger_.Set(DeadlineIn(Seconds(kLingerSeconds)), [this](bool expired) {
      if (expired) context_.TryCancel();
      RemoveHold();
    });
    ReactorStream::Release(std::move(last));
  }
  void OnDone(const grpc::Status&) override {
    const std::shared_ptr<Calls> calls = calls_;
    delete this;  // and its channel
    calls->Remove();
  }

 private:
  void Begin() override {
    context_.set_wait_for_ready(true);  // a peer that cannot be reached yet is called again
    stub_->PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();
    StartCall();
  }
  void End() override {
    StartWritesDone();
    RemoveHold();
  }
  void Drained() override { linger_.Cancel(); }

  const std::shared_ptr<Calls> calls_;
  grpc::ClientContext context_;
  grpc::Alarm linger_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

// gRPC does not say why; a socket of ours does.
Status CannotListen(const std::string& ip) {
  const auto probe = ProbePort(ip, 0);
  return Refused(absl::StrFormat(
      "gRPC %s. Does --network-interface (RINGWOOD_NETWORK_INTERFACE) still have this address, and "
      "may this process open further files (ulimit -n)?",
      probe.ok() ? "cannot listen on " + ip + ", though a socket can" : Message(probe.status())));
}

class GenericListener : public GrpcListener, public grpc::CallbackGenericService {
 public:
  GenericListener(const GrpcOptions& options, std::function<void(uint64_t)> incoming)
      : options_(options), incoming_(std::move(incoming)) {}
  ~GenericListener() override { Close(0); }

  Status Open(const std::string& ip) {
    for (const uint16_t port : PortsToTry(options_.ports, Unpredictable())) {
      if (port != 0 && !ProbePort(ip, port).ok()) continue;
      if (Listen(ToString({ip, port}))) return OkStatus();
    }
    if (options_.ports.any()) return CannotListen(ip);
    return ShortOfPorts(options_.ports, ip, 1);
  }

  bool Listen(const std::string& address) {
    grpc::ServerBuilder builder;
    const auto credentials = options_.credentials != nullptr ? options_.credentials->ForListening()
                                                             : grpc::InsecureServerCredentials();
    builder.AddListeningPort(address, credentials, &port_);
    builder.RegisterCallbackGenericService(this);
    builder.SetMaxReceiveMessageSize(kPieceBytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMilliseconds);
    // The nodes ask each other (watch.h). gRPC's own pings would bring TCP_USER_TIMEOUT, 20 s.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
    server_ = builder.BuildAndStart();
    return server_ != nullptr && port_ != 0;
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    std::optional<IdentityName> caller;
    if (options_.credentials != nullptr) {
      const auto name = options_.credentials->PeerName(*context->auth_context());
      if (!name.ok()) {
        return new RefusedStream({grpc::StatusCode::PERMISSION_DENIED, Message(name.status())});
      }
      caller = *name;
    }
    auto* const stream = new ServerStream(std::move(caller));
    {
      absl::MutexLock lock(&mutex_);
      if (!closed_ && unclaimed_.size() < kMaxUnclaimed) {
        unclaimed_[++newest_] = stream;
        incoming_(newest_);
        return stream;
      }
    }
    stream->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "no further streams"));
    return stream;
  }

  int port() const override { return port_; }

  GrpcStream* Call(const std::string& endpoint, const Peer& peer) override {
    return new ClientStream(endpoint, peer, options_, calls_);
  }

  GrpcStream* Claim(uint64_t number) override {
    absl::MutexLock lock(&mutex_);
    const auto found = unclaimed_.find(number);
    if (found == unclaimed_.end()) return nullptr;
    ServerStream* const stream = found->second;
    unclaimed_.erase(found);
    return stream;
  }

  void Close(double seconds) override {
    std::map<uint64_t, ServerStream*> unclaimed;
    {
      absl::MutexLock lock(&mutex_);
      closed_ = true;
      unclaimed.swap(unclaimed_);
    }
    for (const auto& [number, stream] : unclaimed) stream->Release({});
    if (server_ == nullptr) return;
    calls_->AwaitNone(seconds + GrpcStream::kLingerSeconds);
    server_->Shutdown(DeadlineIn(Seconds(seconds)));
    server_.reset();
  }

 private:
  const GrpcOptions options_;
  const std::function<void(uint64_t)> incoming_;
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, ServerStream*> unclaimed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<std::unique_ptr<GrpcListener>> OpenGrpcListener(
    const std::string& ip, const GrpcOptions& options,
    std::function<void(uint64_t number)> incoming) {
  auto listener = std::make_unique<GenericListener>(options, std::move(incoming));
  RW_RETURN_IF_ERROR(listener->Open(ip));
  return std::unique_ptr<GrpcListener>(std::move(listener));
}

}  // namespace ringwood
