// Costs as people type them.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "dense/hosts.h"
#include "plan/model/cost.h"

namespace ringwood {

// "a=1e-3,b=2e-9" → {{"a", 1e-3}, {"b", 2e-9}}; numbers are finite and not negative.
StatusOr<std::map<std::string, double>> ParseNumbers(const std::string& text);

// The functions below take times up to kMostSeconds, and seconds a byte up to kMostSecondsPerByte.
//
// "alpha=S,beta=S_PER_BYTE[,gamma=S_PER_BYTE][,delay=S]"; gamma and delay are 0 where not given.
StatusOr<Network> ParseNetwork(const std::string& text);
// The inverse, without gamma: for people to give to `ringwood plan`.
std::string NetworkText(const Network& network);
// That network for the ranks of these hosts: "--workers 4 --network … --ranks-per-host 2".
std::string PlanArguments(const Network& network, const Hosts& hosts);
// As `ringwood plan` takes it: how many ranks share a host's NIC; on one host nobody uses it.
int RanksPerHost(const Hosts& hosts);

// "ring:a=S,b=S_PER_BYTE", "tree:…", or "ring:table=FILE" (bytes,avg_latency_us).
struct NamedCost {
  std::string route;
  Cost cost;
};
StatusOr<NamedCost> ParseCost(const std::string& text);

}  // namespace ringwood
