// A coordinator for tests that die with it: gathers a world, commits when all have voted, takes
// members back, and can be killed at an exact point of a round. One epoch, without a disk.
#pragma once

#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "ringwood/v1/control.grpc.pb.h"

namespace ringwood {

// A port that nobody has, below those that the kernel hands out: while its server is dead no
// connection is given it.
inline int PortForRestarts() {
  static int next = 10'000 + ::getpid() % 10'000;
  for (;;) {
    const int port = next++;
    const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool free =
        ::bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(probe);
    if (free) return port;
  }
}

class FakeCoordinator final : public v1::Coordinator::Service {
 public:
  struct Script {
    uint32_t world = 2;
    bool hangs = false;                        // nothing that is asked is answered
    bool takes_back = true;                    // else Reattach is refused: the epoch is over
    bool holds_back = false;                   // Reattach is never answered
    bool agrees = true;                        // else Agree is never answered
    std::set<uint32_t> untold = {};            // ranks whose votes are never answered
    std::optional<v1::Plan> new_plan = {};     // comes with the first commit
    std::optional<v1::Activated> served = {};  // told on each stream that begins
    int misread = 0;                           // streams that end as if gRPC had misread errno
  };

  FakeCoordinator(int port, Script script) : script_(std::move(script)) {
    if (script_.served) *served_.mutable_plan() = *script_.served;
    grpc::ServerBuilder builder;
    int bound = 0;
    builder.AddListeningPort(absl::StrFormat("127.0.0.1:%d", port),
                             grpc::InsecureServerCredentials(), &bound);
    builder.RegisterService(this);
    // As the real one: whoever looks for a silent server pings it, for as long as a test takes.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    server_ = builder.BuildAndStart();
    RW_CHECK(server_ != nullptr && bound == port);
  }
  // As a kill: who waits gets no answer.
  ~FakeCoordinator() override {
    {
      absl::MutexLock lock(&mutex_);
      dead_ = true;
    }
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  // They wait until it has come to this; false: it did not.
  bool AwaitVotes(uint64_t round, size_t count) {
    return AwaitThat([this, round, count] { return votes_[round].size() >= count; });
  }
  bool AwaitJoins(size_t count) {
    return AwaitThat([this, count] { return joins_.size() >= count; });
  }
  bool AwaitTables(size_t count) {
    return AwaitThat([this, count] { return tables_.size() >= count; });
  }
  bool AwaitBack(size_t count) {
    return AwaitThat([this, count] { return back_.size() >= count; });
  }

  bool AwaitLeave() {
    return AwaitThat([this] { return left_; });
  }

  v1::ReattachRequest back(uint32_t node) {
    absl::MutexLock lock(&mutex_);
    return back_[node];
  }
  v1::VoteRequest vote(uint64_t round, uint32_t rank) {
    absl::MutexLock lock(&mutex_);
    return votes_[round][rank];
  }

 private:
  using Context = grpc::ServerContext;

  bool AwaitThat(const std::function<bool()>& come) {
    absl::MutexLock lock(&mutex_);
    const auto known = [&] { return come(); };
    return mutex_.AwaitWithTimeout(absl::Condition(&known), absl::Seconds(30));
  }

  // A handler waits; false: the coordinator is dead.
  bool Hold(const std::function<bool()>& come) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto over = [&] { return dead_ || come(); };
    mutex_.Await(absl::Condition(&over));
    return !dead_;
  }
  static grpc::Status Dead() { return {grpc::StatusCode::UNAVAILABLE, "killed"}; }

  grpc::Status Status(Context* context, const v1::StatusRequest*, v1::StatusResponse*) override {
    absl::MutexLock lock(&mutex_);
    const auto given_up = [&] { return dead_ || !script_.hangs || context->IsCancelled(); };
    while (!given_up()) mutex_.AwaitWithTimeout(absl::Condition(&dead_), absl::Milliseconds(100));
    return {grpc::StatusCode::UNIMPLEMENTED, "nobody asks"};
  }

  grpc::Status Join(Context*, const v1::JoinRequest* request, v1::JoinResponse* response) override {
    absl::MutexLock lock(&mutex_);
    joins_[request->rank()] = *request;
    const auto all = [this] { return !script_.hangs && joins_.size() == script_.world; };
    if (!Hold(all)) return Dead();
    response->set_job(1);
    response->set_epoch(1);
    response->set_node(request->rank());
    response->set_world(script_.world);
    response->set_failure_timeout_seconds(5);
    response->set_heartbeat_seconds(0.05);
    return grpc::Status::OK;
  }

  grpc::Status Attend(Context*, grpc::ServerReaderWriter<v1::Notice, v1::Beat>* stream) override {
    v1::Beat beat;
    if (!stream->Read(&beat)) return grpc::Status::OK;
    {
      absl::MutexLock lock(&mutex_);
      if (script_.misread-- > 0) {
        return {grpc::StatusCode::UNAVAILABLE, "no connection: No such file or directory"};
      }
    }
    stream->SendInitialMetadata();
    if (served_.has_plan()) stream->Write(served_);
    while (stream->Read(&beat)) {
      absl::MutexLock lock(&mutex_);
      if (dead_) return Dead();
    }
    return Dead();
  }

  grpc::Status Agree(Context*, const v1::AgreeRequest* request,
                     v1::AgreeResponse* response) override {
    absl::MutexLock lock(&mutex_);
    tables_[request->rank()] = *request;
    if (!Hold([this] { return script_.agrees && tables_.size() == script_.world; })) return Dead();
    *response->mutable_plan() = tables_[0].plan();
    response->set_from_round(1);
    return grpc::Status::OK;
  }

  grpc::Status Vote(Context*, const v1::VoteRequest* vote, v1::Commit* commit) override {
    absl::MutexLock lock(&mutex_);
    auto& votes = votes_[vote->round()];
    votes[vote->rank()] = *vote;
    const auto committed = [&] { return last_.round() >= vote->round(); };
    if (!Hold([&] { return committed() || votes.size() == script_.world; })) return Dead();
    if (!committed()) {
      last_.Clear();
      last_.set_epoch(1);
      last_.set_round(vote->round());
      for (const auto& [rank, one] : votes)
        last_.set_total_weight(last_.total_weight() + one.weight());
      if (script_.new_plan) {
        *last_.mutable_plan() = *std::exchange(script_.new_plan, std::nullopt);
        last_.set_generation(1);
      }
    }
    if (script_.untold.count(vote->rank()) && !Hold([] { return false; })) return Dead();
    *commit = last_;
    return grpc::Status::OK;
  }

  grpc::Status Reattach(Context*, const v1::ReattachRequest* request,
                        v1::ReattachResponse*) override {
    absl::MutexLock lock(&mutex_);
    back_[request->node()] = *request;
    if (!script_.takes_back) {
      return {grpc::StatusCode::ABORTED, "this coordinator does not know epoch 1: join again"};
    }
    if (request->last().round() > last_.round()) last_ = request->last();
    // Where all have joined the epoch is known: one that stood still and lost its connection is
    // back.
    const auto all = [this] {
      return !script_.holds_back &&
             (joins_.size() == script_.world || back_.size() == script_.world);
    };
    return Hold(all) ? grpc::Status::OK : Dead();
  }

  grpc::Status Leave(Context*, const v1::LeaveRequest*, v1::LeaveResponse*) override {
    absl::MutexLock lock(&mutex_);
    left_ = true;
    return grpc::Status::OK;
  }

  absl::Mutex mutex_;
  Script script_ ABSL_GUARDED_BY(mutex_);
  bool dead_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint32_t, v1::JoinRequest> joins_ ABSL_GUARDED_BY(mutex_);     // by rank
  std::map<uint32_t, v1::AgreeRequest> tables_ ABSL_GUARDED_BY(mutex_);   // by rank
  std::map<uint32_t, v1::ReattachRequest> back_ ABSL_GUARDED_BY(mutex_);  // by node
  std::map<uint64_t, std::map<uint32_t, v1::VoteRequest>> votes_ ABSL_GUARDED_BY(mutex_);
  v1::Commit last_ ABSL_GUARDED_BY(mutex_);
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  v1::Notice served_;  // written before the server starts
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace ringwood
