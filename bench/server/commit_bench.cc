// What a step's commit costs: votes of all workers over loopback gRPC, until the last commit is in.
// Each worker is a thread with a channel of its own; the iteration is one round, in microseconds.
#include <benchmark/benchmark.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "plan/wire.h"
#include "proto/own_connection.h"
#include "proto/token.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "server/server.h"

namespace ringwood {
namespace {

class Worker {
 public:
  Worker(int port, uint32_t rank, uint32_t world) : rank_(rank), incarnation_(Unpredictable() | 1) {
    stub_ = v1::Coordinator::NewStub(
        OpenChannel("127.0.0.1:" + std::to_string(port), OwnConnection().Arguments(), ""));
    v1::JoinRequest join;
    join.set_protocol_version(v1::PROTOCOL_VERSION_CURRENT);
    join.set_role(v1::ROLE_WORKER);
    join.set_rank(rank);
    join.set_world(world);
    join.set_incarnation(incarnation_);
    grpc::ClientContext joining, agreeing;
    v1::JoinResponse joined;
    RW_CHECK(stub_->Join(&joining, join, &joined).ok());
    epoch_ = joined.epoch();
    v1::AgreeRequest agree;
    agree.set_epoch(epoch_);
    agree.set_rank(rank);
    agree.set_incarnation(incarnation_);
    if (rank == 0) *agree.mutable_plan() = ToProto(Plan());
    v1::AgreeResponse agreed;
    RW_CHECK(stub_->Agree(&agreeing, agree, &agreed).ok());
  }

  void Vote(uint64_t round) {
    v1::VoteRequest vote;
    vote.set_epoch(epoch_);
    vote.set_round(round);
    vote.set_rank(rank_);
    vote.set_incarnation(incarnation_);
    vote.set_weight(1);
    grpc::ClientContext context;
    v1::Commit commit;
    RW_CHECK(stub_->Vote(&context, vote, &commit).ok());
  }

 private:
  const uint32_t rank_;
  const uint64_t incarnation_;
  uint64_t epoch_ = 0;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
};

void Commit(benchmark::State& state) {
  const auto world = static_cast<uint32_t>(state.range(0));
  ServerOptions options;
  options.insecure = true;
  options.servers = 0;
  options.failure_timeout_seconds = 3600;  // the workers here do not beat
  auto server = Server::Start(options);
  RW_CHECK(server.ok());
  std::atomic<bool> over{false};
  std::barrier<> start(world), end(world);
  std::vector<std::thread> others;
  for (uint32_t rank = 1; rank < world; ++rank) {
    others.emplace_back([&, rank] {
      Worker worker((*server)->port(), rank, world);
      for (uint64_t round = 1;; ++round) {
        start.arrive_and_wait();
        if (over) return;
        worker.Vote(round);
        end.arrive_and_wait();
      }
    });
  }
  Worker worker((*server)->port(), 0, world);
  std::vector<double> rounds;  // microseconds
  for (auto unused : state) {
    const TimePoint begun = Now();
    start.arrive_and_wait();
    worker.Vote(rounds.size() + 1);
    end.arrive_and_wait();
    rounds.push_back(1e6 * ToSeconds(Now() - begun));
  }
  over = true;
  start.arrive_and_wait();
  for (std::thread& other : others) other.join();
  std::sort(rounds.begin(), rounds.end());
  state.counters["p50"] = rounds[rounds.size() / 2];
  state.counters["p99"] = rounds[rounds.size() * 99 / 100];
}
BENCHMARK(Commit)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Arg(32)->Arg(64)->UseRealTime()->Unit(
    benchmark::kMicrosecond);

}  // namespace
}  // namespace ringwood

BENCHMARK_MAIN();
