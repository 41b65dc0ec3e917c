// Which hosts a job runs on, and which rank sits where. Pure: text and numbers in, values out.
//
// A host is what the launcher calls one: the word behind -H or in the hostfile. It is never
// resolved; it is handed to the remote shell as it stands. "localhost" is this machine, without a
// remote shell.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

// Ranks, spares included, and servers of one job at most: its coordinator refuses more
// (server/calls/limits.h), when all of them have been started.
inline constexpr int kMaxRanks = 4096;
inline constexpr int kMostServers = 256;

struct Host {
  std::string name;
  int slots = 0;  // ranks it takes at most; 0: not said, shares evenly with the others
};

// "h1:4,h2:4" or "h1,h2"; an IPv6 address stands in brackets, "[fd00::1]:4".
StatusOr<std::vector<Host>> ParseHosts(const std::string& text);

// Lines "NAME [slots=N]"; '#' starts a comment. `path` is only for error messages.
StatusOr<std::vector<Host>> ParseHostFile(const std::string& text, const std::string& path);

// One host's share of the ranks, contiguous.
struct HostRanks {
  std::string host;
  int group = 0;  // GROUP_RANK: the host's index among those that got ranks
  int first_rank = 0;
  int count = 0;
};

// Fills the hosts in the order given. ranks 0: as many as the slots say. Hosts without slots share
// what the others leave, as evenly as it goes, earlier ones first. Hosts left without ranks drop
// out.
StatusOr<std::vector<HostRanks>> PlaceRanks(const std::vector<Host>& hosts, int ranks);

// Servers of a job where nobody says how many: one on each host, as far as there may be so many.
int ServersOn(size_t hosts);

using Environment = std::map<std::string, std::string>;

// What every rank of a job is told beside its place.
struct RankContext {
  Environment session;  // options of all ranks' sessions, by variable, as they were given

  // Of those, what the launcher itself acts on or changes.
  std::string network_interface;  // empty: loopback
  std::string port_range;         // empty: any port
  bool trusted_fabric = false;
  std::string transport;
  std::string log_level;                        // empty: not given
  std::string freeze_plan, save_plan, profile;  // files of rank 0; empty: none
  double join_timeout_seconds = 0;              // 0: the rank's own default

  int world = 0;
  std::string coordinator;  // HOST:PORT
  std::string master_address;
  int master_port = 0;
  std::string token;   // hex, empty: none
  std::string resume;  // "1": continue, "auto": if there is a checkpoint; empty: a new job
  uint64_t job = 0;    // to continue, or the name of the new one; 0: the newest with a checkpoint
  int restart = 0;
  std::string report;
  std::string timeline, flight_record;  // named as in timeline/name.h; empty: none
  int checkpoint_every = 0;
};

// The variables of local rank `local` at `place`; torchrun's names and meanings, then RINGWOOD_*.
// An option that is not set leaves no variable.
Environment RankEnvironment(const RankContext& context, const HostRanks& place, int local);

}  // namespace ringwood
