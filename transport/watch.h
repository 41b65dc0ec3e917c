// Decides which silent peer to ask for a sign of life, and when one that gives none has failed.
// Pure: the awaited peers and the time come in, the decision comes out; a node acts on it in its
// loop.
//
//   awaited, silent for a fifth of the limit   it is asked by a note, which it answers at once
//   ... for half of it                         others are asked too: is the peer cut off, or we?
//   ... for all of it                          it has failed
//
// Others are those that were heard; where fewer than kWitnesses of them live, also peers that were
// never heard, because nothing needed a connection to them yet. To ask one is to connect to it.
//
// A peer from which nothing is awaited may be silent for ever. One that was never heard, because
// its process or connection is still starting, has the start's limit.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

struct WatchLimits {
  Duration silence = Seconds(5);
  Duration start = Seconds(60);
};

class Watch {
 public:
  // Checks per limit: the deadline is kept to a fortieth.
  static constexpr int kLooks = 40;
  static constexpr int kWitnesses = 2;

  // `self` is the node that watches.
  Watch(const WatchLimits& limits, int self, const std::vector<int>& peers, TimePoint now);

  void Heard(int peer, TimePoint now);
  void Forget(int peer);  // it is gone: no message of it is expected

  struct Failed {
    int peer = 0;
    bool alone = false;      // no other peer answers either: this node is cut off
    bool connected = false;  // it was heard before
  };
  struct Decision {
    std::vector<int> ask;
    std::vector<Failed> failed;
  };
  // To be called every interval(). `awaited`: the peers from which a message is awaited.
  Decision Look(TimePoint now, const std::set<int>& awaited);

  Duration interval() const { return limits_.silence / kLooks; }
  // "rank 2 (host h1) has not answered for 5.0 s while 3 others did"; TimedOut. SilentNode has the
  // number.
  Status Reason(const Failed& failed, const std::function<std::string(int)>& label) const;

 private:
  struct State {
    TimePoint heard;
    bool ever = false;  // heard
    bool awaited = false;
    TimePoint since;  // awaited
    TimePoint asked;
  };

  Duration Quiet(const State& peer, TimePoint now) const;
  bool Lives(const State& peer, TimePoint now) const;
  bool Alone(int failed, TimePoint now) const;
  void AskStrangers(TimePoint now, Decision* decision);

  const WatchLimits limits_;
  const int self_;
  std::map<int, State> peers_;
  TimePoint looked_;
  TimePoint departed_;  // when one that was forgotten was last heard
};

// An error that accuses a node: a peer that gave no sign of life or cannot be reached, or this node
// itself where it heard none.
Status Accusing(Status status, int node);
std::optional<int> SilentNode(const Status& status);  // whom it accuses

}  // namespace ringwood
