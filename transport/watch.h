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
// A host's network is tested by answers of other hosts alone: processes of one host reach each
// other without it. Where a peer of another host is silent, those of a third can tell whose network
// is cut off; where there are two hosts, nobody can. A peer whose host is not known counts as a
// host by itself.
//
// A peer from which nothing is awaited may be silent for ever. One that was never heard, because
// its process or connection is still starting, has the start's limit, unless it is on trial.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/transport.h"

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

  // `self` is the node that watches; `peers` may name it too.
  Watch(const WatchLimits& limits, int self, const std::vector<Peer>& peers, TimePoint now);

  void Heard(int peer, TimePoint now);
  void Forget(int peer);  // it is gone: no message of it is expected

  // What others say of a silent peer, or of this node.
  enum class Others {
    kAnswer,  // the peer is cut off, or it hangs
    kSilent,  // all of them: this node is cut off
    kNone,    // there are none who could tell
  };
  struct Failed {
    int peer = 0;
    Others others = Others::kNone;
    bool connected = false;  // it was heard before
    bool abroad = true;      // on another host
    Duration limit{};        // of its silence
    // All others of its host that were heard before or asked, where none of them answers.
    std::vector<int> neighbours = {};
  };
  struct Decision {
    std::vector<int> ask;
    std::vector<Failed> failed;
  };
  // To be called every interval(). `awaited`: the peers from which a message is awaited.
  Decision Look(TimePoint now, const std::set<int>& awaited);

  Duration interval() const { return limits_.silence / kLooks; }
  // "rank 2 (host h1) has not answered on the data plane for 5.0 s while others did: …"; TimedOut.
  // SilentNodes has whom it accuses.
  Status Reason(const Failed& failed, const std::function<std::string(int)>& label) const;

 private:
  struct State {
    std::string host;
    bool on_trial = false;
    TimePoint heard;
    bool ever = false;  // heard
    bool awaited = false;
    TimePoint since;  // awaited
    TimePoint asked;
  };

  Duration Quiet(const State& peer, TimePoint now) const;
  Duration LimitOf(const State& peer) const;
  bool Lives(const State& peer, TimePoint now) const;
  Others OthersThan(int failed, TimePoint now) const;
  std::vector<int> SilentNeighbours(int failed, TimePoint now) const;
  void AskStrangers(std::set<std::string> suspects, TimePoint now, Decision* decision);
  void AskNeighbours(const std::set<std::string>& suspects, TimePoint now, Decision* decision);

  const WatchLimits limits_;
  const int self_;
  std::string host_;
  std::map<int, State> peers_;
  TimePoint looked_;
  std::map<std::string, TimePoint> departed_;  // by host: when one that is forgotten was heard last
};

// An error that accuses nodes: a peer that gave no sign of life or cannot be reached, before others
// of its host that do not answer either, or this node itself where it heard none.
Status Accusing(Status status, const std::vector<int>& nodes);
std::vector<int> SilentNodes(const Status& status);  // whom it accuses; mostly nobody

}  // namespace ringwood
