// What goes wrong in a Cluster, and how it ends.
#pragma once

#include "tests/server/simulation/cluster.h"

namespace ringwood::simulation {

inline void Cluster::Launch(Process& process, double seconds) {
  agenda_.After(seconds, [this, &process] {
    if (process.alive()) return;
    agenda_.Say("process %d starts", process.index);
    process.Start();
  });
}

// Its connections break at once, or are found broken when its host can be reached again.
inline void Cluster::Kill(Process& process) {
  if (!process.alive()) return;
  agenda_.Say("process %d dies", process.index);
  Link& link = LinkOf(process);
  link.inbox.clear();
  link.frozen = false;
  if (process.call() != 0) Send(process, process.shell(), event::CallGone{process.call()});
  if (process.stream() != 0) Send(process, process.shell(), event::StreamBroken{process.stream()});
  process.Die();
  if (&process != &Twin()) Launch(process, agenda_.Between(0.1, 3));
}

inline void Cluster::Leave(Process& process) {
  if (!process.works()) return;
  agenda_.Say("process %d leaves", process.index);
  event::Leave leave{NewId(process), {}};
  leave.request.set_epoch(process.epoch());
  leave.request.set_node(process.node());
  leave.request.set_incarnation(process.incarnation);
  leave.request.set_failed(agenda_.Chance(0.5));
  Send(process, process.shell(), std::move(leave));
  Kill(process);
}

inline void Cluster::Freeze(Process& process, double seconds) {
  if (!process.alive() || LinkOf(process).frozen) return;
  agenda_.Say("process %d is stopped for %.1f s", process.index, seconds);
  LinkOf(process).frozen = true;
  agenda_.After(seconds, [this, &process] { Thaw(process); });
}

inline void Cluster::Thaw(Process& process) {
  Link& link = LinkOf(process);
  if (!std::exchange(link.frozen, false)) return;
  agenda_.Say("process %d goes on", process.index);
  for (Act& act : std::exchange(link.inbox, {})) act();
}

// No message gets through, in one direction or both. Either end takes the connection for broken
// after a while, if it lasts.
inline void Cluster::Cut(Process& process, double seconds) {
  Link& link = LinkOf(process);
  const uint64_t which = agenda_.Below(6);
  if (which == 0) {
    link.data_cut = true;
  } else {
    link.up_cut = which != 1;
    link.down_cut = which != 2;
    link.data_cut = which > 4;
  }
  agenda_.Say("process %d is cut off%s%s%s for %.1f s", process.index, link.up_cut ? ", up" : "",
              link.down_cut ? ", down" : "", link.data_cut ? ", data" : "", seconds);
  const uint64_t cut = ++link.cut;
  const auto lasts = [&link, cut] { return link.cut == cut && (link.up_cut || link.down_cut); };
  agenda_.After(agenda_.Between(0.5, 8), [this, &process, lasts] {
    if (lasts()) Lose(process, process.shell(), 0);
  });
  agenda_.After(agenda_.Between(0.5, 8), [this, &process, &link, lasts] {
    const uint64_t shell = process.shell();
    if (!lasts() || shell == 0) return;
    const StreamId stream = process.stream();
    broken_.insert(stream);
    if (stream != 0) coordinators_.Receive(shell, event::StreamBroken{stream});
    if (process.call() != 0) coordinators_.Receive(shell, event::CallGone{process.call()});
    link.down.push_back([this, &process, shell] { Lose(process, shell, 0); });
  });
  agenda_.After(seconds, [this, &process, cut] {
    if (LinkOf(process).cut == cut) Heal(process);
  });
}

inline void Cluster::Heal(Process& process) {
  Link& link = LinkOf(process);
  ++link.cut;
  link.up_cut = link.down_cut = link.data_cut = false;
  for (Act& act : std::exchange(link.up, {})) act();
  for (Act& act : std::exchange(link.down, {})) act();
}

inline void Cluster::KillCoordinator(double seconds) {
  const uint64_t shell = coordinators_.present();
  if (shell == 0) return;
  coordinators_.Kill(shell);
  LoseAll(shell, 0.5);
  agenda_.After(seconds, [this] {
    if (coordinators_.present() == 0) coordinators_.Start();
  });
}

inline void Cluster::Fault() {
  const uint64_t dice = agenda_.Below(100);
  if (dice < 25) return Kill(Any());
  if (dice < 35) return Freeze(Any(), agenda_.Between(0.1, 10));
  if (dice < 53) return Cut(Any(), agenda_.Between(0.1, 12));
  if (dice < 68)
    return KillCoordinator(agenda_.Chance(0.7) ? agenda_.Between(0.05, 1) : agenda_.Between(1, 10));
  if (dice < 78) {
    const uint64_t shell = coordinators_.present();
    if (shell == 0) return;
    const double seconds = agenda_.Between(0.5, 6);
    coordinators_.Replace(seconds);
    return LoseAll(shell, seconds);
  }
  if (dice < 84) return Any().GiveUp();
  if (dice < 88) return Leave(Any());
  if (dice < 90) {
    Launch(Twin(), 0);
    return agenda_.After(agenda_.Between(0.5, 10), [this] { Kill(Twin()); });
  }
  bool& trouble = dice < 96 ? disk_.slow : disk_.full;
  trouble = true;
  agenda_.After(agenda_.Between(0.5, 8), [&trouble] { trouble = false; });
}

inline void Cluster::HealAll() {
  agenda_.Say("the faults are over");
  faults_ = false;
  disk_.slow = disk_.full = false;
  for (const auto& process : processes_) {
    Thaw(*process);
    Heal(*process);
  }
  Kill(Twin());
  if (coordinators_.present() == 0) coordinators_.Start();
}

inline bool Cluster::Run(uint64_t events) {
  constexpr double kFaultChance = 0.02;           // after an event
  constexpr double kPatience = 3 * kJoinTimeout;  // until training goes on
  constexpr uint64_t kEnough = 3;                 // commits that show it
  for (; counts_.events < events && ledger_.ok(); ++counts_.events) {
    agenda_.Step();
    if (agenda_.Chance(kFaultChance)) Fault();
  }
  HealAll();
  const uint64_t before = counts_.commits;
  const double healed = agenda_.seconds();
  for (;
       counts_.commits < before + kEnough && agenda_.seconds() < healed + kPatience && ledger_.ok();
       ++counts_.events) {
    agenda_.Step();
    if (counts_.commits == before) counts_.slowest = agenda_.seconds() - healed;
  }
  ledger_.Expect(counts_.commits >= before + kEnough,
                 "no step is committed %.0f s after the faults", kPatience);
  coordinators_.StopAndExpectNothingForgotten();
  return ledger_.ok();
}

}  // namespace ringwood::simulation
