// Collects the facts of all hosts of a job and of the pairs between them: starts
// `ringwood doctor-worker` on each through the remote shell, and measures pair after pair.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/facts.h"
#include "launch/hosts.h"
#include "launch/remote.h"

namespace ringwood {

struct SurveyRequest {
  std::vector<Host> hosts;
  Reach reach;
  std::string directory;  // where a relative store is meant
  std::string network_interface, port_range, transport;
  bool trusted_fabric = false;
  std::string store;  // of the first host; empty: its disk is not looked at
  std::string token;
  bool links = true;  // measure pairs
};

// Blocks: seconds for the hosts, and about a second and the remote shell's start for each round of
// pairs, of which there are as many as hosts. `progress` gets how many of how many steps are done.
ClusterFacts Survey(const SurveyRequest& request,
                    const std::function<void(int done, int all)>& progress);

// What a host's worker prints: a line of facts, then, where it listens for peers, this line.
std::string ListeningLine(int port);

}  // namespace ringwood
