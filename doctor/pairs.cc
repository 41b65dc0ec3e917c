#include "doctor/pairs.h"

#include <algorithm>

namespace ringwood {

// The last place stands still, the others turn by one in each round:
//
//   0 1 2      4 0 1      3 4 0
//   5 4 3  →   5 3 2  →   5 2 1  …     above one another: a pair
std::vector<PairRound> PairRounds(int hosts) {
  std::vector<PairRound> rounds;
  const int even = hosts + hosts % 2;  // with odd hosts, one rests in each round
  for (int round = 0; round < even - 1; ++round) {
    PairRound pairs;
    const auto place = [&](int i) {
      return i == even - 1 ? i : (i + even - 1 - round) % (even - 1);
    };
    for (int i = 0; i < even / 2; ++i) {
      const auto [low, high] = std::minmax({place(i), place(even - 1 - i)});
      if (high < hosts) pairs.emplace_back(low, high);
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

}  // namespace ringwood
