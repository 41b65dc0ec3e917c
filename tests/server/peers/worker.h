// One worker process, as far as a server can tell: gRPC calls from join to leave.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/digest.h"
#include "base/loop.h"
#include "base/random.h"
#include "proto/call.h"
#include "proto/token.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "ringwood/v1/store.grpc.pb.h"
#include "server/server.h"
#include "tests/plan/small_plans.h"
#include "transport/ucx/fabric.h"

namespace ringwood {

class Directory {
 public:
  Directory() {
    std::string pattern = testing::TempDir() + "/ringwood-server-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One worker process, as far as the server can tell.
class Worker {
 public:
  Worker(int port, uint32_t rank, uint32_t world, bool resume = false, const Access& access = {}) {
    auto channel =
        OpenChannel("127.0.0.1:" + std::to_string(port), grpc::ChannelArguments(), access);
    control_ = v1::Coordinator::NewStub(channel);
    store_ = v1::Store::NewStub(channel);
    join_.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
    join_.set_role(v1::ROLE_WORKER);
    join_.set_rank(rank);
    join_.set_world(world);
    join_.set_host("test");
    join_.set_incarnation(Unpredictable() | 1);
    join_.set_resume(resume);
    auto fabric = MakeUcxFabric(&loop_, UcxOptions());
    EXPECT_TRUE(fabric.ok()) << fabric.status();
    fabric_ = *std::move(fabric);
    join_.set_fabric_address(fabric_->Address());
  }
  ~Worker() {
    StopAttending();
    EXPECT_TRUE(loop_.Call([this] { return fabric_.reset(), OkStatus(); }, Seconds(10)).ok());
  }

  v1::JoinRequest& request() { return join_; }
  grpc::Status Join() {
    for (int tries = 1;; ++tries, usleep(20'000)) {
      grpc::ClientContext context;
      Limit(&context);
      const grpc::Status status = control_->Join(&context, join_, &joined);
      if (!AsksAgain(status) || tries == 500) return status;
    }
  }
  void Attend() {
    attending_ = std::make_unique<grpc::ClientContext>();
    stream_ = control_->Attend(attending_.get());
    Beat();
  }
  void Beat() {
    v1::Beat beat;
    beat.set_epoch(joined.epoch());
    beat.set_node(joined.node());
    beat.set_incarnation(join_.incarnation());
    stream_->Write(beat);
  }
  void AwaitConfirmation() { stream_->WaitForInitialMetadata(); }  // of the first heartbeat
  bool Read(v1::Notice* notice) { return stream_->Read(notice); }
  void StopAttending() {
    if (stream_ == nullptr) return;
    attending_->TryCancel();
    stream_->Finish();
    stream_.reset();
  }
  grpc::Status Agree(v1::AgreeResponse* response, const v1::Plan& plan = OneRing(1, "test")) {
    v1::AgreeRequest request;
    request.set_epoch(joined.epoch());
    request.set_rank(joined.node());
    request.set_incarnation(join_.incarnation());
    v1::Tensor* tensor = request.add_tensors();
    tensor->set_name("weight");
    tensor->set_elements(1000);
    tensor->set_route(plan.groups(0).route() == "ring" ? "dense" : "sparse");
    tensor->set_density(0.01);
    if (joined.node() == 0) *request.mutable_plan() = plan;
    grpc::ClientContext context;
    Limit(&context);
    const grpc::Status agreed = control_->Agree(&context, request, response);
    table_ = request;
    *table_.mutable_plan() = response->plan();
    return agreed;
  }
  grpc::Status Vote(uint64_t round, v1::Commit* commit) {
    v1::VoteRequest vote;
    vote.set_epoch(joined.epoch());
    vote.set_round(round);
    vote.set_rank(joined.node());
    vote.set_incarnation(join_.incarnation());
    vote.set_digest(round);
    vote.set_weight(4);
    grpc::ClientContext context;
    Limit(&context);
    return control_->Vote(&context, vote, commit);
  }
  // To a server that was started again; `last`: the commit of the last round, where there is one.
  grpc::Status Reattach(const v1::Commit& last) {
    v1::ReattachRequest request;
    request.set_epoch(joined.epoch());
    request.set_node(joined.node());
    request.set_incarnation(join_.incarnation());
    *request.mutable_joined() = join_;
    request.set_round(last.round());
    if (last.round() > 0) *request.mutable_last() = last;
    *request.mutable_table() = table_;
    grpc::ClientContext context;
    Limit(&context);
    v1::ReattachResponse response;
    return control_->Reattach(&context, request, &response);
  }
  // The reason why the epoch is over, from its notice.
  v1::Failure Failure() {
    for (v1::Notice notice; Read(&notice);) {
      if (notice.has_failure()) return notice.failure();
    }
    return {};
  }
  // Connects to another server from now on.
  void TurnTo(int port) {
    StopAttending();
    auto channel = OpenChannel("127.0.0.1:" + std::to_string(port), grpc::ChannelArguments(), "");
    control_ = v1::Coordinator::NewStub(channel);
    store_ = v1::Store::NewStub(channel);
  }
  grpc::Status Leave(const std::string& failure = "") {
    v1::LeaveRequest leave;
    leave.set_epoch(joined.epoch());
    leave.set_node(joined.node());
    leave.set_incarnation(join_.incarnation());
    leave.set_failed(!failure.empty());
    leave.set_reason(failure);
    v1::LeaveResponse response;
    grpc::ClientContext context;
    Limit(&context);
    return control_->Leave(&context, leave, &response);
  }
  // This rank's half of the shared weights, and a residual of its own.
  grpc::Status Save(uint64_t step, const std::string& weights, bool whole = true) {
    grpc::ClientContext context;
    Limit(&context);
    v1::SaveReceipt receipt;
    auto stream = store_->Save(&context, &receipt);
    const size_t half = weights.size() / join_.world();
    const size_t from = half * join_.rank();
    const size_t to = join_.rank() + 1 == join_.world() ? weights.size() : from + half;
    stream->Write(Chunk(step, "weights", v1::SCOPE_SHARED, weights.size(), from,
                        weights.substr(from, to - from)));
    if (whole) {
      const std::string own = "residual of " + std::to_string(join_.rank());
      v1::SaveChunk last = Chunk(step, "residual", v1::SCOPE_OWN, own.size(), 0, own);
      last.set_last(true);
      stream->Write(last);
    }
    stream->WritesDone();
    return stream->Finish();
  }
  v1::AwaitResponse Await(uint64_t step, double seconds) {
    v1::AwaitRequest request;
    request.set_step(step);
    request.set_timeout_seconds(seconds);
    v1::AwaitResponse response;
    grpc::ClientContext context;
    Limit(&context);
    EXPECT_TRUE(store_->Await(&context, request, &response).ok());
    return response;
  }
  // `of`: whose item it is, if not this rank's.
  grpc::Status Load(uint64_t step, const std::string& item, v1::Scope scope, std::string* out,
                    int of = -1) {
    v1::LoadRequest request;
    request.set_step(step);
    request.set_rank(of < 0 ? join_.rank() : static_cast<uint32_t>(of));
    request.set_item(item);
    request.set_scope(scope);
    grpc::ClientContext context;
    Limit(&context);
    auto stream = store_->Load(&context, request);
    for (v1::LoadChunk chunk; stream->Read(&chunk);) {
      EXPECT_EQ(chunk.offset(), out->size());
      EXPECT_EQ(chunk.checksum(), Digest(std::as_bytes(std::span(chunk.data()))));
      *out += chunk.data();
    }
    return stream->Finish();
  }
  v1::StatusResponse Status() {
    v1::StatusResponse response;
    grpc::ClientContext context;
    Limit(&context);
    EXPECT_TRUE(control_->Status(&context, {}, &response).ok());
    return response;
  }

  v1::JoinResponse joined;

 private:
  static void Limit(grpc::ClientContext* context) {
    context->set_deadline(DeadlineIn(Seconds(30)));
  }
  v1::SaveChunk Chunk(uint64_t step, const std::string& item, v1::Scope scope, uint64_t bytes,
                      uint64_t offset, const std::string& data) const {
    v1::SaveChunk chunk;
    chunk.set_epoch(joined.epoch());
    chunk.set_step(step);
    chunk.set_rank(join_.rank());
    chunk.set_world(join_.world());
    chunk.set_incarnation(join_.incarnation());
    chunk.set_item(item);
    chunk.set_scope(scope);
    chunk.set_item_bytes(bytes);
    chunk.set_offset(offset);
    chunk.set_data(data);
    chunk.set_checksum(Digest(std::as_bytes(std::span(data))));
    return chunk;
  }

  v1::JoinRequest join_;
  v1::AgreeRequest table_;  // with the plan that was agreed on
  std::unique_ptr<v1::Coordinator::Stub> control_;
  std::unique_ptr<v1::Store::Stub> store_;
  std::unique_ptr<Fabric> fabric_;  // an address that the server's reducer can read; never used
  Loop loop_{"worker"};
  std::unique_ptr<grpc::ClientContext> attending_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::Beat, v1::Notice>> stream_;
};

inline ServerOptions Embedded(const std::string& store = "") {
  ServerOptions options;
  options.insecure = true;
  options.store = store;
  options.failure_timeout_seconds = 60;  // a worker here beats once
  return options;
}

// Both workers' calls at once; each blocks until the other's came.
template <typename Call>
std::pair<grpc::Status, grpc::Status> Both(Worker& a, Worker& b, Call call) {
  auto other = std::async(std::launch::async, [&] { return call(b); });
  grpc::Status mine = call(a);
  return {mine, other.get()};
}

inline void JoinBoth(Worker& a, Worker& b) {
  auto [first, second] = Both(a, b, [](Worker& worker) { return worker.Join(); });
  ASSERT_TRUE(first.ok()) << first.error_message();
  ASSERT_TRUE(second.ok()) << second.error_message();
  a.Attend();
  b.Attend();
  a.AwaitConfirmation();  // else a death that follows may come before it
  b.AwaitConfirmation();
}

inline void ExpectCommit(Worker& a, Worker& b, uint64_t round) {
  auto [first, second] = Both(a, b, [&](Worker& worker) {
    v1::Commit commit;
    grpc::Status voted = worker.Vote(round, &commit);
    EXPECT_EQ(commit.round(), round);
    EXPECT_EQ(commit.total_weight(), 8);
    return voted;
  });
  EXPECT_TRUE(first.ok() && second.ok()) << first.error_message() << second.error_message();
}

inline void AgreeBoth(Worker& a, Worker& b, const v1::Plan& plan = OneRing(1, "test")) {
  auto [first, second] = Both(a, b, [&](Worker& worker) {
    v1::AgreeResponse response;
    return worker.Agree(&response, plan);
  });
  EXPECT_TRUE(first.ok() && second.ok()) << first.error_message() << second.error_message();
}

}  // namespace ringwood
