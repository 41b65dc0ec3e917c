#include "plan/predict/simulate.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "dense/collective.h"
#include "plan/predict/event_queue.h"

namespace ringwood {
namespace {

constexpr size_t kStepsAhead = 4;    // of 16 bytes: a line of a cache
constexpr size_t kNamedWaiters = 8;  // of a deadlock; the others are counted

// What fits into the key of a message that nobody waits for yet.
constexpr size_t kMostNodes = 1 << 16;
constexpr size_t kMostPlays = 1 << 12;
constexpr size_t kMostChunks = 1 << 20;

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

uint64_t KeyOf(int to, int from, int play, int chunk) {
  const auto part = [](int value) { return static_cast<uint64_t>(static_cast<uint32_t>(value)); };
  return part(to) << 48 | part(from) << 32 | part(play) << 20 | part(chunk);
}

struct Arrived {
  double through;
  double bytes;
  int slot;
};

// What came before it was waited for, first in first out.
class EarlyArrivals {
 public:
  void Push(const Arrived& arrived) { all_.push_back(arrived); }
  Arrived Pop() { return all_[next_++]; }
  bool empty() const { return next_ == all_.size(); }

 private:
  std::vector<Arrived> all_;
  size_t next_ = 0;
};

// A receive that is waited for beside others.
struct Waiting {
  int peer;
  uint32_t step;
  bool come;
};

// One chunk on one node.
struct ChunkRun {
  double now = 0;                 // its data is complete up to here
  const double* bytes = nullptr;  // of its slots
  int chunk = -1;                 // -1: none
  uint32_t id = 0;                // of all runs
  // Of the receives from `step` to `end`, `missing` have not come.
  uint32_t step = 0;
  uint32_t end = 0;
  uint32_t missing = 0;
};

struct NodeLane {
  const Performance* play = nullptr;  // the present one; null: not begun, or no more
  const Step* steps = nullptr;        // of this node
  uint32_t count = 0;
  uint32_t at = 0;  // in the lane's plays
  uint32_t next_chunk = 0;
  int running = 0;
  double now = 0;  // it is through with everything before
  std::array<ChunkRun, kChunksInFlight> runs;
};

struct SimulatedNode {
  double alpha = 0;
  double delay = 0;  // beside alpha, between hosts
  double beta = 0;
  double compute = 1;
  int host = 0;
  double adder_free = 0;
  size_t early = 0;  // messages that it did not wait for yet
};

struct SimulatedHost {
  double out_free = 0;  // NIC, outgoing
  double in_free = 0;   // NIC, incoming
  double memory_free = 0;
};

class Player {
 public:
  explicit Player(const Scene& scene) : scene_(scene) {
    const size_t nodes = scene.plays.empty() ? 0 : scene.plays[0].schedules->size();
    nodes_.resize(nodes);
    for (const Performance& play : scene.plays) {
      lanes_.resize(std::max(lanes_.size(), static_cast<size_t>(play.lane) + 1));
    }
    node_lanes_.resize(nodes * lanes_.size());
    uint32_t runs = 0;
    for (NodeLane& lane : node_lanes_) {
      for (ChunkRun& run : lane.runs) run.id = runs++;
    }
    waiting_.resize(runs);
    const size_t hosts = scene.hosts.size();
    for (size_t h = 0; h < hosts; ++h) {
      for (int rank : scene.hosts[h]) nodes_[static_cast<size_t>(rank)].host = static_cast<int>(h);
    }
    const size_t alone_from = hosts == 0 ? 0 : static_cast<size_t>(scene.workers);
    hosts_.resize(hosts + nodes - alone_from);
    shared_ = hosts_.size() < nodes;
    for (size_t n = 0; n < nodes; ++n) {
      SimulatedNode& node = nodes_[n];
      if (n >= alone_from) node.host = static_cast<int>(hosts + n - alone_from);
      const NodeSpeed speed = n < scene.speeds.size() ? scene.speeds[n] : NodeSpeed();
      node.alpha = scene.network.alpha * speed.alpha;
      node.delay = scene.network.delay * speed.alpha;
      node.beta = scene.network.beta * speed.beta;
      node.compute = speed.compute;
    }
    for (size_t p = 0; p < scene.plays.size(); ++p) {
      lanes_[static_cast<size_t>(scene.plays[p].lane)].push_back(p);
    }
    outcome_.start_seconds.assign(scene.plays.size(), -1);
    outcome_.end_seconds.assign(scene.plays.size(), 0);
  }

  StatusOr<Outcome> Run() {
    for (int id = 0; id < static_cast<int>(nodes_.size()); ++id) {
      for (int lane = 0; lane < Lanes(); ++lane) Enter(id, lane);
    }
    while (!events_.empty() && wrong_.ok()) {
      const auto [seconds, event] = events_.Pop();
      clock_ = seconds;
      Handle(event);
    }
    RW_RETURN_IF_ERROR(wrong_);
    RW_RETURN_IF_ERROR(CheckEveryoneIsThrough());
    for (size_t id = 0; id < nodes_.size(); ++id) {
      double end = 0;
      for (int lane = 0; lane < Lanes(); ++lane) end = std::max(end, LaneOf(id, lane).now);
      outcome_.node_end_seconds.push_back(end);
    }
    return std::move(outcome_);
  }

 private:
  int Lanes() const { return static_cast<int>(lanes_.size()); }
  NodeLane& LaneOf(size_t id, int number) {
    return node_lanes_[static_cast<size_t>(number) * nodes_.size() + id];
  }
  const NodeLane& LaneOf(size_t id, int number) const {
    return node_lanes_[static_cast<size_t>(number) * nodes_.size() + id];
  }
  int PlayNumber(const NodeLane& lane) const {
    return static_cast<int>(lane.play - scene_.plays.data());
  }

  // The lane's next play, now or when its data is ready.
  void Enter(int id, int number) {
    NodeLane& lane = LaneOf(id, number);
    lane.play = nullptr;
    if (lane.at == lanes_[number].size()) return;
    const Performance& next = scene_.plays[lanes_[number][lane.at]];
    if (id < scene_.workers) {
      lane.now = std::max(lane.now, next.ready_seconds * nodes_[id].compute);
    }
    if (lane.now <= clock_) return Begin(id, number);
    InFlight& event = events_.Push(lane.now);
    event.to = static_cast<uint16_t>(id);
    event.from = static_cast<uint16_t>(number);
    event.wakes = true;
  }

  void Begin(int id, int number) {
    NodeLane& lane = LaneOf(id, number);
    const size_t play = lanes_[number][lane.at];
    if (id < scene_.workers) {
      double& start = outcome_.start_seconds[play];
      start = start < 0 ? lane.now : std::min(start, lane.now);
      double& end = outcome_.end_seconds[play];
      end = std::max(end, lane.now);
    }
    lane.play = &scene_.plays[play];
    const Schedule& schedule = (*lane.play->schedules)[id];
    lane.steps = schedule.data();
    lane.count = static_cast<uint32_t>(schedule.size());
    lane.next_chunk = 0;
    const size_t chunks = schedule.empty() ? 0 : lane.play->slot_bytes.size();
    const uint32_t at = lane.at++;
    if (chunks == 0) return Enter(id, number);
    for (ChunkRun& run : lane.runs) {
      if (lane.at != at + 1 || lane.next_chunk == chunks) break;
      ++lane.running;
      run.now = lane.now;
      StartChunk(&lane, &run);
      Advance(id, number, &run);
    }
  }

  void StartChunk(NodeLane* lane, ChunkRun* run) {
    run->bytes = lane->play->slot_bytes[lane->next_chunk].data();
    run->chunk = static_cast<int>(lane->next_chunk++);
    run->step = 0;
    run->missing = 0;
  }

  double StepBytes(const NodeLane& lane, const ChunkRun& run, const Step& step) const {
    return run.bytes[step.slot] * RatioOf(*lane.play, step);
  }

  // Runs the chunk, and those that take its place, until it must wait.
  void Advance(int id, int number, ChunkRun* run) {
    NodeLane& lane = LaneOf(id, number);
    for (;;) {
      while (run->step < lane.count) {
        const Step& step = lane.steps[run->step];
        if (step.op != Op::kSend) {
          if (!ReceiveBatch(id, lane, run)) return;
          continue;
        }
        const double bytes = StepBytes(lane, *run, step);
        if (bytes >= 0) Send(id, lane, *run, step, bytes);
        ++run->step;
      }
      lane.now = std::max(lane.now, run->now);
      if (lane.next_chunk == lane.play->slot_bytes.size()) break;
      StartChunk(&lane, run);
    }
    run->chunk = -1;
    if (--lane.running > 0) return;
    double& end = outcome_.end_seconds[PlayNumber(lane)];
    end = std::max(end, lane.now);
    Enter(id, number);
  }

  void Send(int id, const NodeLane& lane, const ChunkRun& run, const Step& step, double bytes) {
    const SimulatedNode& node = nodes_[id];
    SimulatedHost& host = hosts_[node.host];
    ++outcome_.messages;
    const bool inside = shared_ && nodes_[step.peer].host == node.host;
    double& free = inside ? host.memory_free : host.out_free;
    const double begin = std::max(run.now, free);
    free = begin + (inside ? scene_.network.inside_beta : node.beta) * bytes;
    InFlight& message = events_.Push((inside ? free : begin + node.delay) + node.alpha);
    message.to = static_cast<uint16_t>(step.peer);
    message.from = static_cast<uint16_t>(id);
    message.play = static_cast<uint16_t>(PlayNumber(lane));
    message.through = inside;
    message.chunk = run.chunk;
    message.slot = step.slot;
    message.bytes = bytes;
  }

  void Handle(const InFlight& message) {
    if (message.wakes) return Begin(message.to, message.from);
    if (message.through) return Receive(message, clock_);
    const SimulatedNode& node = nodes_[message.to];
    double& in_free = hosts_[node.host].in_free;
    const double beta = std::max(node.beta, nodes_[message.from].beta);
    in_free = std::max(in_free, clock_) + beta * message.bytes;
    if (!shared_) return Receive(message, in_free);
    InFlight& later = events_.Push(in_free);  // what comes from this host meanwhile goes first
    later = message;
    later.through = true;
  }

  void Receive(const InFlight& message, double through) {
    const Arrived arrived{through, message.bytes, message.slot};
    const int number = scene_.plays[message.play].lane;
    NodeLane& lane = LaneOf(message.to, number);
    if (lane.play == &scene_.plays[message.play]) {
      for (ChunkRun& run : lane.runs) {
        if (run.chunk != message.chunk || run.missing == 0) continue;
        const Step* const step = Awaited(lane, run, message);
        if (step == nullptr) break;
        Take(message.to, *step, arrived, &run);
        if (--run.missing > 0) return;
        run.step = run.end;
        return Advance(message.to, number, &run);
      }
    }
    early_[KeyOf(message.to, message.from, message.play, message.chunk)].Push(arrived);
    ++nodes_[message.to].early;
  }

  // Which receive of the run this message answers; null: none, it is early.
  const Step* Awaited(const NodeLane& lane, const ChunkRun& run, const InFlight& message) {
    if (run.end == run.step + 1) {
      const Step& step = lane.steps[run.step];
      return step.peer == message.from ? &step : nullptr;
    }
    std::vector<Waiting>& all = waiting_[run.id];
    auto found =
        std::lower_bound(all.begin(), all.end(), static_cast<int>(message.from),
                         [](const Waiting& waiting, int peer) { return waiting.peer < peer; });
    while (found != all.end() && found->peer == message.from && found->come) ++found;
    if (found == all.end() || found->peer != message.from) return nullptr;
    found->come = true;
    return lane.steps + found->step;
  }

  // All receives from here to the next send. False: some of them are still to come.
  bool ReceiveBatch(int id, const NodeLane& lane, ChunkRun* run) {
    uint32_t end = run->step;
    run->missing = 0;
    for (; end < lane.count && lane.steps[end].op != Op::kSend; ++end) {
      run->missing += StepBytes(lane, *run, lane.steps[end]) >= 0;
    }
    run->end = end;
    const bool several = end > run->step + 1;
    if (run->missing > 0 && (several || nodes_[id].early > 0)) TakeEarly(id, lane, several, run);
    if (run->missing == 0) {
      run->step = end;
      return true;
    }
    // Schedules of many nodes pass through the caches: what is read next time is fetched now.
    __builtin_prefetch(lane.steps + std::min<size_t>(end + kStepsAhead, lane.count));
    return false;
  }

  // What has come before it was waited for, in the order in which it came. Where `several` are
  // waited for, the others are noted.
  void TakeEarly(int id, const NodeLane& lane, bool several, ChunkRun* run) {
    struct Found {
      Arrived arrived;
      uint32_t step;
    };
    std::vector<Found> all;
    std::vector<Waiting>& waiting = waiting_[run->id];
    waiting.clear();
    for (uint32_t s = run->step; s < run->end; ++s) {
      if (StepBytes(lane, *run, lane.steps[s]) < 0) continue;
      const int peer = lane.steps[s].peer;
      const auto found = nodes_[id].early > 0
                             ? early_.find(KeyOf(id, peer, PlayNumber(lane), run->chunk))
                             : early_.end();
      if (found != early_.end()) {
        all.push_back({found->second.Pop(), s});
        if (found->second.empty()) early_.erase(found);
      } else if (several) {
        waiting.push_back({peer, s, false});
      }
    }
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const Waiting& a, const Waiting& b) { return a.peer < b.peer; });
    std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
      return a.arrived.through < b.arrived.through;
    });
    for (const Found& found : all) Take(id, lane.steps[found.step], found.arrived, run);
    nodes_[id].early -= all.size();
    run->missing -= static_cast<uint32_t>(all.size());
  }

  void Take(int id, const Step& step, const Arrived& arrived, ChunkRun* run) {
    if (arrived.slot != step.slot && wrong_.ok()) {
      wrong_ = Corrupt(absl::StrCat("simulation: node ", id, " expects slot ", step.slot,
                                    " from node ", step.peer, " in chunk ", run->chunk,
                                    " and gets slot ", arrived.slot));
    }
    run->now = std::max(run->now, arrived.through);
    if (step.op != Op::kReceiveReduce) return;
    double& adder_free = nodes_[id].adder_free;
    run->now = std::max(run->now, adder_free) + scene_.network.gamma * arrived.bytes;
    adder_free = run->now;
  }

  uint32_t FirstMissing(const ChunkRun& run) const {
    if (run.end == run.step + 1) return run.step;
    uint32_t first = run.end - 1;
    for (const Waiting& waiting : waiting_[run.id]) {
      if (!waiting.come) first = std::min(first, waiting.step);
    }
    return first;
  }

  Status CheckEveryoneIsThrough() const {
    std::string names;
    size_t waiting = 0;
    for (size_t id = 0; id < nodes_.size(); ++id) {
      for (int number = 0; number < Lanes(); ++number) {
        const NodeLane& lane = LaneOf(id, number);
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
      return Aborted(absl::StrCat("simulation: deadlock, ", waiting, " of ", nodes_.size(),
                                  " nodes wait: ", names));
    }
    if (!early_.empty()) {
      const uint64_t key = early_.begin()->first;
      return Corrupt(absl::StrCat("simulation: node ", key >> 48, " never receives ",
                                  "a message of node ", key >> 32 & 0xffff));
    }
    return OkStatus();
  }

  const Scene& scene_;
  std::vector<SimulatedNode> nodes_;
  std::vector<NodeLane> node_lanes_;  // lane by lane, of each node
  std::vector<SimulatedHost> hosts_;
  bool shared_ = false;                     // some host has several nodes
  std::vector<std::vector<size_t>> lanes_;  // the plays of each
  EventQueue<InFlight> events_;
  double clock_ = 0;                                   // of the present event
  std::vector<std::vector<Waiting>> waiting_;          // of each run, by peer and step
  std::unordered_map<uint64_t, EarlyArrivals> early_;  // by KeyOf
  Status wrong_;
  Outcome outcome_;
};

Status CheckPlay(const Scene& scene, const Performance& play) {
  const size_t nodes = scene.plays[0].schedules ? scene.plays[0].schedules->size() : 0;
  if (play.schedules == nullptr || play.schedules->size() != nodes || nodes > kMostNodes) {
    return Invalid("simulation: every play needs a schedule for every node");
  }
  if (play.lane < 0 || play.lane >= kMostLanes || play.slot_bytes.size() > kMostChunks) {
    return Invalid(absl::StrCat("simulation: lane ", play.lane, ", ", play.slot_bytes.size(),
                                " chunks; less than ", kMostLanes, " and at most ", kMostChunks));
  }
  return OkStatus();
}

Status CheckSteps(const Performance& play) {
  const size_t nodes = play.schedules->size();
  const size_t slots = play.slot_bytes.empty() ? 0 : play.slot_bytes[0].size();
  for (const Schedule& schedule : *play.schedules) {
    for (const Step& step : schedule) {
      if (step.peer < 0 || static_cast<size_t>(step.peer) >= nodes) {
        return Invalid(absl::StrCat("simulation: there is no node ", step.peer));
      }
      if (step.slot < 0 || static_cast<size_t>(step.slot) >= slots) {
        return Invalid(absl::StrCat("simulation: there is no slot ", step.slot));
      }
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<Outcome> Simulate(const Scene& scene) {
  if (scene.plays.size() > kMostPlays) {
    return Exhausted(
        absl::StrCat("simulation: ", scene.plays.size(), " plays; at most ", kMostPlays, " fit"));
  }
  if (!scene.hosts.empty() && !IsComplete(scene.hosts, scene.workers)) {
    return Invalid("simulation: the hosts do not have every worker once");
  }
  for (size_t p = 0; p < scene.plays.size(); ++p) {
    const Performance& play = scene.plays[p];
    RW_RETURN_IF_ERROR(CheckPlay(scene, play));
    if (p > 0 && play.schedules == scene.plays[p - 1].schedules) continue;
    RW_RETURN_IF_ERROR(CheckSteps(play));
  }
  return Player(scene).Run();
}

}  // namespace ringwood
