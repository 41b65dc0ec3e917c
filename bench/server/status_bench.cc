// What the board costs the coordinator in a step, and what an answer of the status port costs.
// docs/metrics.md has the figures.
#include <benchmark/benchmark.h>

#include "server/status/board.h"
#include "server/status/metrics.h"
#include "server/status/status_json.h"

namespace ringwood {
namespace {

v1::EpochRecord RecordOf(uint32_t ranks) {
  v1::EpochRecord record;
  record.set_job(1);
  record.set_epoch(1);
  record.set_world(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    v1::RecordedMember* const member = record.add_members();
    member->set_role(v1::ROLE_WORKER);
    member->set_rank(rank);
    member->set_host("host");
    member->set_incarnation(rank + 1);
  }
  return record;
}

void BeginJob(Board* board, uint32_t ranks) {
  board->Saw(event::Tick{}, {action::Activate{RecordOf(ranks)}}, Now(), 1);
}

// A step of all ranks: a vote of each, and the commit. A heartbeat comes with each vote, too.
void BM_Step(benchmark::State& state) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  Board board(1);
  BeginJob(&board, ranks);
  uint64_t round = 0;
  for (auto _ : state) {
    ++round;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      event::Heartbeat heard{rank + 1u, {}};
      heard.beat.set_epoch(1);
      heard.beat.set_node(rank);
      heard.beat.set_incarnation(rank + 1);
      heard.beat.mutable_report()->set_steps(round);
      board.Saw(heard, {}, Now(), 1);
      event::Vote vote{1, {}};
      vote.request.set_epoch(1);
      vote.request.set_round(round);
      vote.request.set_rank(rank);
      vote.request.set_incarnation(rank + 1);
      vote.request.set_since_ready_seconds(0.01);
      Actions actions;
      if (rank + 1 == ranks) {
        v1::Commit commit;
        commit.set_epoch(1);
        commit.set_round(round);
        actions = {action::Reply{1, commit}};
      }
      board.Saw(vote, actions, Now(), 1);
    }
  }
}
BENCHMARK(BM_Step)->ArgName("ranks")->Arg(8)->Arg(64);

template <std::string (*text)(const v1::StatusResponse&)>
void BM_Answer(benchmark::State& state) {
  Board board(1);
  BeginJob(&board, static_cast<uint32_t>(state.range(0)));
  size_t bytes = 0;
  for (auto _ : state) {
    v1::StatusResponse status;
    board.Complete(&status, Now(), 1);
    bytes = text(status).size();
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
std::string Json(const v1::StatusResponse& status) { return ToJson(status, -1); }
BENCHMARK(BM_Answer<MetricsText>)->ArgName("ranks")->Arg(8)->Arg(64);
BENCHMARK(BM_Answer<Json>)->ArgName("ranks")->Arg(8)->Arg(64);

}  // namespace
}  // namespace ringwood

BENCHMARK_MAIN();
