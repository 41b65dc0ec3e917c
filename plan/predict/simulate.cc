#include "plan/predict/simulate.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan/predict/awaited_receives.h"
#include "plan/predict/early_arrivals.h"
#include "plan/predict/event_queue.h"
#include "plan/predict/node_lanes.h"
#include "plan/predict/simulated_cluster.h"

namespace ringwood {
namespace {

constexpr size_t kStepsAhead = 4;    // of 16 bytes: a line of a cache
constexpr size_t kNamedWaiters = 8;  // of a deadlock; the others are counted

struct InFlight {
  uint16_t to = 0;
  uint16_t from = 0;
  uint16_t play = 0;
  bool through = false;  // the NIC has all of it; false: the first byte has come
  bool wakes = false;    // no message: node `to` begins its present play of lane `from`
  int chunk = 0;
  int slot = 0;
  double bytes = 0;
};

class Player {
 public:
  explicit Player(const Scene& scene)
      : scene_(scene),
        cluster_(scene),
        lanes_(scene),
        awaited_(lanes_.runs()),
        early_(cluster_.nodes()) {
    outcome_.start_seconds.assign(scene.plays.size(), -1);
    outcome_.end_seconds.assign(scene.plays.size(), 0);
  }

  StatusOr<Outcome> Run() {
    for (int id = 0; id < Nodes(); ++id) {
      for (int lane = 0; lane < lanes_.count(); ++lane) Enter(id, lane);
    }
    while (!events_.empty() && wrong_.ok()) {
      const auto [seconds, event] = events_.Pop();
      clock_ = seconds;
      Handle(event);
    }
    RW_RETURN_IF_ERROR(wrong_);
    RW_RETURN_IF_ERROR(CheckEveryoneIsThrough());
    for (int id = 0; id < Nodes(); ++id) outcome_.node_end_seconds.push_back(lanes_.End(id));
    return std::move(outcome_);
  }

 private:
  int Nodes() const { return static_cast<int>(cluster_.nodes()); }
  int PlayNumber(const NodeLane& lane) const {
    return static_cast<int>(lane.play - scene_.plays.data());
  }

  // The lane's next play, now or when its data is ready.
  void Enter(int id, int number) {
    NodeLane& lane = lanes_.Of(id, number);
    lane.play = nullptr;
    if (lane.at == lanes_.plays(number).size()) return;
    const Performance& next = scene_.plays[lanes_.plays(number)[lane.at]];
    if (id < scene_.workers) {
      lane.now = std::max(lane.now, next.ready_seconds * cluster_.compute(id));
    }
    if (lane.now <= clock_) return Begin(id, number);
    InFlight& event = events_.Push(lane.now);
    event.to = static_cast<uint16_t>(id);
    event.from = static_cast<uint16_t>(number);
    event.wakes = true;
  }

  void Begin(int id, int number) {
    NodeLane& lane = lanes_.Of(id, number);
    const size_t play = lanes_.plays(number)[lane.at];
    if (id < scene_.workers) {
      double& start = outcome_.start_seconds[play];
      start = start < 0 ? lane.now : std::min(start, lane.now);
      double& end = outcome_.end_seconds[play];
      end = std::max(end, lane.now);
    }
    lane.StartPlay(scene_.plays[play], id);
    if (lane.started()) return Enter(id, number);
    for (ChunkRun& run : lane.runs) {
      // A chunk that need not wait may take others with it, and end the play.
      if (lane.play != &scene_.plays[play] || lane.started()) break;
      ++lane.running;
      run.now = lane.now;
      lane.StartChunk(&run);
      Advance(id, number, &run);
    }
  }

  // Runs the chunk, and those that take its place, until it must wait.
  void Advance(int id, int number, ChunkRun* run) {
    NodeLane& lane = lanes_.Of(id, number);
    for (;;) {
      while (run->step < lane.count) {
        const Step& step = lane.steps[run->step];
        if (step.op != Op::kSend) {
          if (!ReceiveBatch(id, lane, run)) return;
          continue;
        }
        const double bytes = lane.StepBytes(*run, step);
        if (bytes >= 0) Send(id, lane, *run, step, bytes);
        ++run->step;
      }
      lane.now = std::max(lane.now, run->now);
      if (lane.started()) break;
      lane.StartChunk(run);
    }
    run->chunk = -1;
    if (--lane.running > 0) return;
    double& end = outcome_.end_seconds[PlayNumber(lane)];
    end = std::max(end, lane.now);
    Enter(id, number);
  }

  void Send(int id, const NodeLane& lane, const ChunkRun& run, const Step& step, double bytes) {
    ++outcome_.messages;
    const auto [seconds, through] = cluster_.Send({id, step.peer, bytes}, run.now);
    InFlight& message = events_.Push(seconds);
    message.to = static_cast<uint16_t>(step.peer);
    message.from = static_cast<uint16_t>(id);
    message.play = static_cast<uint16_t>(PlayNumber(lane));
    message.through = through;
    message.chunk = run.chunk;
    message.slot = step.slot;
    message.bytes = bytes;
  }

  void Handle(const InFlight& message) {
    if (message.wakes) return Begin(message.to, message.from);
    if (message.through) return Receive(message, clock_);
    const double through = cluster_.Receive({message.from, message.to, message.bytes}, clock_);
    if (!cluster_.shared()) return Receive(message, through);
    InFlight& later = events_.Push(through);  // what comes from this host meanwhile goes first
    later = message;
    later.through = true;
  }

  void Receive(const InFlight& message, double through) {
    const Arrival arrival{through, message.bytes, message.slot};
    const int number = scene_.plays[message.play].lane;
    NodeLane& lane = lanes_.Of(message.to, number);
    if (lane.play == &scene_.plays[message.play]) {
      for (ChunkRun& run : lane.runs) {
        if (run.chunk != message.chunk || run.missing == 0) continue;
        const Step* const step = Answered(lane, run, message);
        if (step == nullptr) break;
        Take(message.to, *step, arrival, &run);
        if (--run.missing > 0) return;
        run.step = run.end;
        return Advance(message.to, number, &run);
      }
    }
    early_.Push({message.to, message.from, message.play, message.chunk}, arrival);
  }

  // Which receive of the run this message answers; null: none, it is early.
  const Step* Answered(const NodeLane& lane, const ChunkRun& run, const InFlight& message) {
    if (run.awaits_one()) {
      const Step& step = lane.steps[run.step];
      return step.peer == message.from ? &step : nullptr;
    }
    const std::optional<uint32_t> step = awaited_[run.id].Come(message.from);
    return step ? lane.steps + *step : nullptr;
  }

  // All receives from here to the next send. False: some of them are still to come.
  bool ReceiveBatch(int id, const NodeLane& lane, ChunkRun* run) {
    lane.FindReceives(run);
    if (run->missing > 0 && (!run->awaits_one() || early_.AnyAt(id))) TakeEarly(id, lane, run);
    if (run->missing == 0) {
      run->step = run->end;
      return true;
    }
    // Schedules of many nodes pass through the caches: what is read next time is fetched now.
    __builtin_prefetch(lane.steps + std::min<size_t>(run->end + kStepsAhead, lane.count));
    return false;
  }

  // What has come before it was waited for, in the order in which it came. Where several are waited
  // for, the others are noted.
  void TakeEarly(int id, const NodeLane& lane, ChunkRun* run) {
    struct Found {
      Arrival arrival;
      uint32_t step;
    };
    std::vector<Found> all;
    AwaitedReceives& awaited = awaited_[run->id];
    awaited.Clear();
    for (uint32_t s = run->step; s < run->end; ++s) {
      if (lane.StepBytes(*run, lane.steps[s]) < 0) continue;
      const int peer = lane.steps[s].peer;
      if (const auto arrival = early_.Pop({id, peer, PlayNumber(lane), run->chunk})) {
        all.push_back({*arrival, s});
      } else if (!run->awaits_one()) {
        awaited.Add(peer, s);
      }
    }
    awaited.Sort();
    std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
      return a.arrival.through < b.arrival.through;
    });
    for (const Found& found : all) Take(id, lane.steps[found.step], found.arrival, run);
    run->missing -= static_cast<uint32_t>(all.size());
  }

  void Take(int id, const Step& step, const Arrival& arrival, ChunkRun* run) {
    if (arrival.slot != step.slot && wrong_.ok()) {
      wrong_ = Corrupt(absl::StrCat("simulation: node ", id, " expects slot ", step.slot,
                                    " from node ", step.peer, " in chunk ", run->chunk,
                                    " and gets slot ", arrival.slot));
    }
    run->now = std::max(run->now, arrival.through);
    if (step.op == Op::kReceiveReduce) run->now = cluster_.Add(id, arrival.bytes, run->now);
  }

  // The step at which the run waits.
  uint32_t FirstMissing(const ChunkRun& run) const {
    return run.awaits_one() ? run.step : awaited_[run.id].First().value_or(run.end - 1);
  }

  Status CheckEveryoneIsThrough() const {
    std::string names;
    size_t waiting = 0;
    for (int id = 0; id < Nodes(); ++id) {
      for (int number = 0; number < lanes_.count(); ++number) {
        const NodeLane& lane = lanes_.Of(id, number);
        if (lane.play == nullptr) continue;
        if (++waiting > kNamedWaiters) continue;
        for (const ChunkRun& run : lane.runs) {
          if (run.chunk < 0) continue;
          const uint32_t at = FirstMissing(run);
          const Step& step = lane.steps[at];
          absl::StrAppend(&names, names.empty() ? "" : "; ", "node ", id, " waits at step ", at,
                          " for slot ", step.slot, " from node ", step.peer);
        }
      }
    }
    if (waiting > 0) {
      return Aborted(
          absl::StrCat("simulation: deadlock, ", waiting, " of ", Nodes(), " nodes wait: ", names));
    }
    if (!early_.empty()) {
      const ArrivalKey key = early_.Any();
      return Corrupt(absl::StrCat("simulation: node ", key.to, " never receives ",
                                  "a message of node ", key.from));
    }
    return OkStatus();
  }

  const Scene& scene_;
  SimulatedCluster cluster_;
  NodeLanes lanes_;
  EventQueue<InFlight> events_;
  double clock_ = 0;                      // of the present event
  std::vector<AwaitedReceives> awaited_;  // of each run, where it awaits several
  EarlyArrivals early_;
  Status wrong_;
  Outcome outcome_;
};

}  // namespace

StatusOr<Outcome> Simulate(const Scene& scene) {
  RW_RETURN_IF_ERROR(CheckScene(scene));
  if (scene.plays.empty()) return Outcome();
  return Player(scene).Run();
}

}  // namespace ringwood
