#include "plan/predict/simulate.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace ringwood {
namespace {

constexpr size_t kNamedWaiters = 8;  // of a deadlock; the others are counted

struct Message {
  double arrival;  // of its first byte
  int slot;
  int play;
};

// Messages from one node to another, first in first out.
struct Channel {
  int from = 0;
  int to = 0;
  bool awaited = false;  // `to` sleeps until something comes
  size_t head = 0;
  std::vector<Message> messages;

  size_t waiting() const { return messages.size() - head; }
  void Pop() {
    if (++head == messages.size()) {
      messages.clear();
      head = 0;
    } else if (head > 4096 && head * 2 > messages.size()) {
      messages.erase(messages.begin(), messages.begin() + static_cast<ptrdiff_t>(head));
      head = 0;
    }
  }
};

struct Node {
  size_t play = 0;
  size_t step = 0;
  bool entered = false;  // the present play's ready time is in `now`
  double now = 0;        // its data is complete up to here
  double out_free = 0;   // card, outgoing
  double in_free = 0;    // card, incoming
  double alpha = 0;
  double beta = 0;
  double compute = 1;
  Channel* out = nullptr;  // last used, most often used again
  Channel* in = nullptr;
};

class Player {
 public:
  explicit Player(const Scene& scene) : scene_(scene) {
    const size_t nodes = scene.plays.empty() ? 0 : scene.plays[0].schedules->size();
    nodes_.resize(nodes);
    for (size_t n = 0; n < nodes; ++n) {
      const NodeSpeed speed = n < scene.speeds.size() ? scene.speeds[n] : NodeSpeed();
      nodes_[n].alpha = scene.network.alpha * speed.alpha;
      nodes_[n].beta = scene.network.beta * speed.beta;
      nodes_[n].compute = speed.compute;
    }
    outcome_.start_seconds.assign(scene.plays.size(), -1);
    outcome_.end_seconds.assign(scene.plays.size(), 0);
  }

  StatusOr<Outcome> Run() {
    for (size_t n = 0; n < nodes_.size(); ++n) runnable_.push_back(static_cast<int>(n));
    while (!runnable_.empty()) {
      const int node = runnable_.front();
      runnable_.pop_front();
      RW_RETURN_IF_ERROR(Advance(node));
    }
    RW_RETURN_IF_ERROR(CheckEveryoneIsThrough());
    for (const Node& node : nodes_) outcome_.node_end_seconds.push_back(node.now);
    return std::move(outcome_);
  }

 private:
  // Runs the node until it is through or must wait.
  Status Advance(int id) {
    Node& node = nodes_[id];
    for (; node.play < scene_.plays.size(); ++node.play, node.step = 0, node.entered = false) {
      const Performance& play = scene_.plays[node.play];
      const Schedule& schedule = (*play.schedules)[id];
      if (!node.entered) Enter(id, play);
      while (node.step < schedule.size()) {
        if (schedule[node.step].op == Op::kSend) {
          Send(id, schedule[node.step], play);
          ++node.step;
          continue;
        }
        RW_ASSIGN_OR_RETURN(const bool received, ReceiveRun(id, schedule, play));
        if (!received) return OkStatus();
      }
      if (!schedule.empty()) {
        double& end = outcome_.end_seconds[node.play];
        end = std::max(end, node.now);
      }
    }
    return OkStatus();
  }

  void Enter(int id, const Performance& play) {
    Node& node = nodes_[id];
    node.entered = true;
    if (id >= scene_.workers) return;
    node.now = std::max(node.now, play.ready_seconds * node.compute);
    double& start = outcome_.start_seconds[node.play];
    start = start < 0 ? node.now : std::min(start, node.now);
    double& end = outcome_.end_seconds[node.play];
    end = std::max(end, node.now);
  }

  Channel* Find(int from, int to) {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(from)) << 32 | static_cast<uint32_t>(to);
    Channel& channel = channels_[key];
    channel.from = from;
    channel.to = to;
    return &channel;
  }

  void Send(int id, const Step& step, const Performance& play) {
    Node& node = nodes_[id];
    if (node.out == nullptr || node.out->to != step.peer) node.out = Find(id, step.peer);
    const double begin = std::max(node.now, node.out_free);
    node.out_free = begin + node.beta * play.message_bytes;
    node.out->messages.push_back({begin + node.alpha, step.slot, static_cast<int>(node.play)});
    ++outcome_.messages;
    if (node.out->awaited) {
      node.out->awaited = false;
      runnable_.push_back(step.peer);
    }
  }

  // All receives from here to the next send: the card serves them as they arrive. False: one of
  // them has not been sent yet.
  StatusOr<bool> ReceiveRun(int id, const Schedule& schedule, const Performance& play) {
    Node& node = nodes_[id];
    size_t end = node.step + 1;
    while (end < schedule.size() && schedule[end].op != Op::kSend) ++end;
    if (end == node.step + 1) return ReceiveOne(id, schedule[node.step], play);
    arrivals_.clear();
    std::vector<Channel*> sources;
    for (size_t s = node.step; s < end; ++s) {
      Channel* channel = Find(schedule[s].peer, id);
      const size_t before =
          static_cast<size_t>(std::count(sources.begin(), sources.end(), channel));
      if (channel->waiting() <= before) {
        channel->awaited = true;
        return false;
      }
      const Message& message = channel->messages[channel->head + before];
      RW_RETURN_IF_ERROR(CheckMessage(id, schedule[s], message));
      sources.push_back(channel);
      arrivals_.push_back({message.arrival, s, channel->from});
    }
    std::stable_sort(arrivals_.begin(), arrivals_.end(),
                     [](const Arrival& a, const Arrival& b) { return a.seconds < b.seconds; });
    for (const Arrival& arrival : arrivals_) {
      Take(node, arrival.seconds, arrival.from, schedule[arrival.step].op, play);
    }
    for (Channel* channel : sources) channel->Pop();
    node.step = end;
    return true;
  }

  StatusOr<bool> ReceiveOne(int id, const Step& step, const Performance& play) {
    Node& node = nodes_[id];
    if (node.in == nullptr || node.in->from != step.peer) node.in = Find(step.peer, id);
    if (node.in->waiting() == 0) {
      node.in->awaited = true;
      return false;
    }
    const Message message = node.in->messages[node.in->head];
    RW_RETURN_IF_ERROR(CheckMessage(id, step, message));
    Take(node, message.arrival, step.peer, step.op, play);
    node.in->Pop();
    ++node.step;
    return true;
  }

  void Take(Node& node, double arrival, int from, Op op, const Performance& play) {
    const double beta = std::max(node.beta, nodes_[from].beta);
    node.in_free = std::max(node.in_free, arrival) + beta * play.message_bytes;
    node.now = std::max(node.now, node.in_free);
    if (op == Op::kReceiveReduce) node.now += scene_.network.gamma * play.message_bytes;
  }

  Status CheckMessage(int id, const Step& step, const Message& message) const {
    const int play = static_cast<int>(nodes_[id].play);
    if (message.slot == step.slot && message.play == play) return OkStatus();
    return Corrupt(absl::StrCat("simulation: node ", id, " expects slot ", step.slot, " of play ",
                                play, " from node ", step.peer, " and gets slot ", message.slot,
                                " of play ", message.play));
  }

  Status CheckEveryoneIsThrough() const {
    std::string names;
    size_t waiting = 0;
    for (size_t id = 0; id < nodes_.size(); ++id) {
      const Node& node = nodes_[id];
      if (node.play >= scene_.plays.size()) continue;
      if (++waiting > kNamedWaiters) continue;
      const Step& step = (*scene_.plays[node.play].schedules)[id][node.step];
      absl::StrAppend(&names, names.empty() ? "" : "; ", "node ", id, " waits at step ", node.step,
                      " for slot ", step.slot, " from node ", step.peer);
    }
    if (waiting > 0) {
      return Aborted(absl::StrCat("simulation: deadlock, ", waiting, " of ", nodes_.size(),
                                  " nodes wait: ", names));
    }
    for (const auto& [key, channel] : channels_) {
      if (channel.waiting() > 0) {
        return Corrupt(absl::StrCat("simulation: node ", channel.to, " never receives ",
                                    channel.waiting(), " messages of node ", channel.from));
      }
    }
    return OkStatus();
  }

  struct Arrival {
    double seconds;
    size_t step;
    int from;
  };

  const Scene& scene_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, Channel> channels_;  // pointers into it stay valid
  std::deque<int> runnable_;
  std::vector<Arrival> arrivals_;
  Outcome outcome_;
};

}  // namespace

StatusOr<Outcome> Simulate(const Scene& scene) {
  for (const Performance& play : scene.plays) {
    const size_t nodes = scene.plays[0].schedules->size();
    if (play.schedules == nullptr || play.schedules->size() != nodes) {
      return Invalid("simulation: every play needs a schedule for every node");
    }
    for (const Schedule& schedule : *play.schedules) {
      for (const Step& step : schedule) {
        if (step.peer < 0 || static_cast<size_t>(step.peer) >= nodes) {
          return Invalid(absl::StrCat("simulation: there is no node ", step.peer));
        }
      }
    }
  }
  return Player(scene).Run();
}

}  // namespace ringwood
