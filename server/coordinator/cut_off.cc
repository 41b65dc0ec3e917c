#include "server/coordinator/cut_off.h"

#include <set>
#include <utility>

namespace ringwood {

std::vector<size_t> CutOff(size_t workers, const std::vector<Complaint>& complaints) {
  std::set<std::pair<size_t, size_t>> pairs;  // both ways
  std::vector<size_t> accused(workers);
  for (const Complaint& complaint : complaints) {
    const auto [from, about] = complaint;
    if (about != from) ++accused[about];
    for (size_t other = 0; other < workers; ++other) {
      if (other == from || (about != from && about != other)) continue;
      pairs.insert({from, other});
      pairs.insert({other, from});
    }
  }
  std::set<size_t> apart;
  while (!pairs.empty()) {
    std::vector<size_t> degree(workers);
    for (const auto& [one, other] : pairs) ++degree[one];
    size_t worst = 0;
    for (size_t w = 1; w < workers; ++w) {
      if (std::pair(degree[w], accused[w]) >= std::pair(degree[worst], accused[worst])) worst = w;
    }
    apart.insert(worst);
    std::erase_if(
        pairs, [worst](const auto& pair) { return pair.first == worst || pair.second == worst; });
  }
  return {apart.begin(), apart.end()};
}

}  // namespace ringwood
