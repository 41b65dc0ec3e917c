// Workers, reducers and coordinators on a network that delays, reorders and loses, with faults at
// random instants. Everything follows from one seed.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/server/simulation/worker.h"

namespace ringwood::simulation {

struct Shape {
  int workers = 3;
  int spares = 0;
  int servers = 0;
  int min_world = 1;
  double reattach_grace = 0;
  double straggler_grace = 0;
};

class Cluster : public Surroundings, Callers {
 public:
  static constexpr double kFailureTimeout = 4;
  static constexpr double kJoinTimeout = 20;

  Cluster(uint64_t seed, const Shape& shape, Mistake mistake, bool traced)
      : agenda_(seed, traced),
        mistake_(mistake),
        shape_(shape),
        coordinators_(Options(shape), mistake, &agenda_, &ledger_, &disk_, this) {
    coordinators_.Start();
    const auto ranks = static_cast<uint32_t>(shape.workers);
    for (int rank = 0; rank < shape.workers + shape.spares; ++rank) {
      processes_.push_back(
          std::make_unique<Worker>(rank, static_cast<uint32_t>(rank), ranks, this));
    }
    for (int server = 0; server < shape.servers; ++server) {
      const int index = static_cast<int>(processes_.size());
      processes_.push_back(std::make_unique<Reducer>(index, static_cast<uint32_t>(server), this));
    }
    for (const auto& process : processes_) Launch(*process, agenda_.Between(0, 0.5));
    const int index = static_cast<int>(processes_.size());
    processes_.push_back(std::make_unique<Worker>(index, 0, ranks, this));
    links_.resize(processes_.size());
  }

  // `events` with faults among them, then none: training has to go on.
  bool Run(uint64_t events);
  const std::string& violation() const { return ledger_.violation(); }
  Counts Counted() {
    counts_.epochs = coordinators_.records();
    counts_.rollbacks = coordinators_.rollbacks();
    counts_.coordinators = coordinators_.started();
    return counts_;
  }

 private:
  static constexpr int kIdsOfAProcess = 64;
  struct Link {
    bool up_cut = false, down_cut = false, data_cut = false;
    uint64_t cut = 0;  // counts
    bool frozen = false;
    std::deque<Act> up, down, inbox;  // what waits for the end of that
  };
  struct Exchange {
    uint32_t there = 0;  // nodes
    double weight = 0;
    bool bad = false;
  };

  static MembershipOptions Options(const Shape& shape) {
    MembershipOptions options;
    options.servers = shape.servers;
    options.failure_timeout_seconds = kFailureTimeout;
    options.join_timeout_seconds = kJoinTimeout;
    options.heartbeat_seconds = 1;
    options.elastic = true;
    options.min_world = shape.min_world;
    options.reattach_grace_seconds = shape.reattach_grace;
    options.straggler_grace_seconds = shape.straggler_grace;
    return options;
  }

  // Of Surroundings.
  void After(Process& process, double seconds, Act act) override;
  void Send(Process& process, uint64_t shell, Event event) override;
  uint64_t NewId(const Process& process) override {
    return ++ids_ * kIdsOfAProcess + static_cast<uint64_t>(process.index);
  }
  uint64_t Coordinator() override { return coordinators_.present(); }
  void Exit(Process& process) override { Kill(process); }
  void Contribute(Process& worker, uint64_t round, double weight, bool bad) override;
  uint64_t StateFor(const Process& worker) override;
  void Keep(const CheckpointBase& checkpoint, uint64_t state) override;
  uint64_t Kept(uint64_t epoch, uint64_t round) override { return kept_[{epoch, round}]; }
  Agenda& agenda() override { return agenda_; }
  Counts& counts() override { return counts_; }
  Ledger& ledger() override { return ledger_; }
  Mistake mistake() override { return mistake_; }

  // Of Callers: the way down, to the process whose number the call or stream carries.
  void Answered(CallId call, Answer answer) override;
  void Noticed(StreamId stream, const v1::Notice& notice) override;
  void Closed(StreamId stream) override;

  double Delay() {
    return agenda_.Chance(0.03) ? agenda_.Between(0.1, 2) : agenda_.Between(0.0002, 0.02);
  }
  Link& LinkOf(const Process& process) { return links_[static_cast<size_t>(process.index)]; }
  void Deliver(Process& process, uint64_t incarnation, Act act);
  void Down(uint64_t id, std::function<void(Process&)> act);
  void Up(Process& process, uint64_t shell, const Event& event);
  void Lose(Process& process, uint64_t shell, double seconds);
  void LoseAll(uint64_t shell, double seconds);
  void Arrive(Process& worker, uint64_t epoch, uint64_t round);
  bool ServersWork(uint64_t epoch) const;

  // Faults. Each ends by itself after a while.
  void Fault();
  Process& Twin() { return *processes_.back(); }
  Process& Any() { return *processes_[agenda_.Below(processes_.size())]; }
  void Launch(Process& process, double seconds);
  void Kill(Process& process);
  void Leave(Process& process);
  void Freeze(Process& process, double seconds);
  void Thaw(Process& process);
  void Cut(Process& process, double seconds);
  void Heal(Process& process);
  void KillCoordinator(double seconds);
  void HealAll();

  Agenda agenda_;
  const Mistake mistake_;
  const Shape shape_;
  Ledger ledger_;
  Disk disk_;
  Coordinators coordinators_;
  // Workers, spares, reducers; last a second process of rank 0, which somebody starts now and then.
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Link> links_;    // of each
  std::set<StreamId> broken_;  // streams whose end the coordinator saw
  std::map<std::pair<uint64_t, uint64_t>, Exchange> exchanges_;  // by epoch and round
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> kept_;       // states of checkpoints
  uint64_t ids_ = 0;
  Counts counts_;
  uint64_t newest_commit_ = 0;
  bool faults_ = true;
};

inline void Cluster::Deliver(Process& process, uint64_t incarnation, Act act) {
  if (process.incarnation != incarnation || incarnation == 0) return;
  Link& link = LinkOf(process);
  if (!link.frozen) return act();
  link.inbox.push_back(
      [this, &process, incarnation, act = std::move(act)] { Deliver(process, incarnation, act); });
}

inline void Cluster::After(Process& process, double seconds, Act act) {
  agenda_.After(seconds, [this, &process, incarnation = process.incarnation, act = std::move(act)] {
    Deliver(process, incarnation, act);
  });
}

inline void Cluster::Send(Process& process, uint64_t shell, Event event) {
  agenda_.After(Delay(),
                [this, &process, shell, event = std::move(event)] { Up(process, shell, event); });
}

// A message that was sent before a connection broke may arrive long after; but no heartbeat on a
// stream whose end was seen.
inline void Cluster::Up(Process& process, uint64_t shell, const Event& event) {
  Link& link = LinkOf(process);
  if (link.up_cut) {
    link.up.push_back([this, &process, shell, event] { Up(process, shell, event); });
    return;
  }
  if (const auto* beat = std::get_if<event::Heartbeat>(&event);
      beat && broken_.contains(beat->stream))
    return;
  if (const auto* end = std::get_if<event::StreamBroken>(&event)) broken_.insert(end->stream);
  if (!coordinators_.Receive(shell, event)) Lose(process, shell, Delay());
}

inline void Cluster::Down(uint64_t id, std::function<void(Process&)> act) {
  Process& process = *processes_[id % kIdsOfAProcess];
  const uint64_t incarnation = process.incarnation;
  agenda_.After(Delay(), [this, &process, incarnation, act = std::move(act)] {
    Act deliver = [this, &process, incarnation, act] {
      Deliver(process, incarnation, [&process, act] { act(process); });
    };
    Link& link = LinkOf(process);
    link.down_cut ? link.down.push_back(std::move(deliver)) : deliver();
  });
}

inline void Cluster::Answered(CallId call, Answer answer) {
  if (call >> 62 != 0) return;  // of the mistake kForgedVote
  if (const auto* commit = std::get_if<v1::Commit>(&answer);
      commit && commit->round() != newest_commit_) {
    newest_commit_ = commit->round();
    ++counts_.commits;
  }
  auto shared = std::make_shared<Answer>(std::move(answer));
  Down(call, [call, shared](Process& process) { process.Answered(call, *shared); });
}

inline void Cluster::Noticed(StreamId stream, const v1::Notice& notice) {
  Down(stream, [stream, notice](Process& process) { process.Noticed(stream, notice); });
}

inline void Cluster::Closed(StreamId stream) {
  broken_.insert(stream);
  Down(stream, [stream](Process& process) { process.Closed(stream); });
}

inline void Cluster::Lose(Process& process, uint64_t shell, double seconds) {
  agenda_.After(seconds, [this, &process, shell, incarnation = process.incarnation] {
    Deliver(process, incarnation, [&process, shell] { process.Lost(shell); });
  });
}

inline void Cluster::LoseAll(uint64_t shell, double seconds) {
  for (const auto& process : processes_) Lose(*process, shell, agenda_.Between(0, seconds));
}

inline bool Cluster::ServersWork(uint64_t epoch) const {
  const v1::EpochRecord* record = ledger_.Record(epoch);
  if (record == nullptr) return true;
  for (const v1::RecordedMember& member : record->members()) {
    if (member.role() != v1::ROLE_REDUCER) continue;
    const auto works = [&](const auto& p) {
      return p->incarnation == member.incarnation() && p->works() && p->epoch() == epoch;
    };
    if (std::none_of(processes_.begin(), processes_.end(), works)) return false;
  }
  return true;
}

inline void Cluster::Contribute(Process& worker, uint64_t round, double weight, bool bad) {
  const uint64_t epoch = worker.epoch();
  Exchange& exchange = exchanges_[{epoch, round}];
  const uint32_t bit = 1u << worker.node();
  if ((exchange.there & bit) == 0) {
    exchange.there |= bit;
    exchange.weight += weight;
    exchange.bad |= bad;
  }
  const v1::EpochRecord* record = ledger_.Record(epoch);
  if (record == nullptr || exchange.there + 1 != 1u << record->world()) return;
  for (const auto& process : processes_) {
    const bool takes_part = process->alive() && process->epoch() == epoch;
    if (takes_part && process->role == v1::ROLE_WORKER) Arrive(*process, epoch, round);
  }
}

// The result at one worker: later, when the network or a server is not there; never, where one that
// died had not sent all of its part.
inline void Cluster::Arrive(Process& worker, uint64_t epoch, uint64_t round) {
  After(worker, Delay(), [this, &worker, epoch, round] {
    if (worker.epoch() != epoch) return;
    if (LinkOf(worker).data_cut || !ServersWork(epoch)) {
      if (worker.works())
        After(worker, 0.3, [this, &worker, epoch, round] { Arrive(worker, epoch, round); });
      return;
    }
    const Exchange& exchange = exchanges_[{epoch, round}];
    worker.OnExchanged(epoch, round, exchange.weight, exchange.bad);
  });
}

inline uint64_t Cluster::StateFor(const Process& worker) {
  if (LinkOf(worker).data_cut) return 0;
  for (const auto& process : processes_) {
    if (!process->alive() || !process->works() || process->epoch() != worker.epoch()) continue;
    if (process->role != v1::ROLE_WORKER || LinkOf(*process).frozen) continue;
    if (const uint64_t state = static_cast<const Worker&>(*process).base_state()) return state;
  }
  return 0;
}

inline void Cluster::Keep(const CheckpointBase& checkpoint, uint64_t state) {
  if (checkpoint.epoch != disk_.record.epoch() || disk_.full) return;
  kept_[{checkpoint.epoch, checkpoint.step}] = state;
  disk_.checkpoint = checkpoint;
  disk_.checkpoint->world = static_cast<uint32_t>(shape_.workers);
}

}  // namespace ringwood::simulation

#include "tests/server/simulation/faults.h"
