#include "dense/hosts.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace ringwood {

Hosts GroupByHost(const std::vector<std::string>& names) {
  Hosts hosts;
  std::map<std::string, size_t> seen;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    const auto [place, is_new] = seen.emplace(names[rank], hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[place->second].push_back(static_cast<int>(rank));
  }
  return hosts;
}

Hosts OneEach(int world) { return EvenHosts(world, 1); }

Hosts EvenHosts(int world, int ranks) {
  Hosts hosts;
  for (int rank = 0; rank < world; ++rank) {
    if (rank % ranks == 0) hosts.emplace_back();
    hosts.back().push_back(rank);
  }
  return hosts;
}

int RanksOf(const Hosts& hosts) {
  size_t ranks = 0;
  for (const std::vector<int>& host : hosts) ranks += host.size();
  return static_cast<int>(ranks);
}

int LargestHost(const Hosts& hosts) {
  size_t largest = 0;
  for (const std::vector<int>& host : hosts) largest = std::max(largest, host.size());
  return static_cast<int>(largest);
}

size_t HostOf(const Hosts& hosts, int rank) {
  const auto host = std::find_if(hosts.begin(), hosts.end(), [rank](const auto& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  });
  RW_CHECK(host != hosts.end());
  return static_cast<size_t>(host - hosts.begin());
}

std::vector<int> NeighboursOf(const Hosts& hosts, int rank) {
  std::vector<int> ranks = hosts[HostOf(hosts, rank)];
  std::rotate(ranks.begin(), std::find(ranks.begin(), ranks.end(), rank), ranks.end());
  ranks.erase(ranks.begin());
  return ranks;
}

std::vector<int> HostOrder(const Hosts& hosts) {
  std::vector<int> order;
  for (const std::vector<int>& host : hosts) order.insert(order.end(), host.begin(), host.end());
  return order;
}

bool IsComplete(const Hosts& hosts, int world) {
  std::vector<int> order = HostOrder(hosts);
  std::sort(order.begin(), order.end());
  if (order.size() != static_cast<size_t>(world)) return false;
  for (int rank = 0; rank < world; ++rank) {
    if (order[rank] != rank) return false;
  }
  return std::none_of(hosts.begin(), hosts.end(), [](const auto& host) { return host.empty(); });
}

}  // namespace ringwood
