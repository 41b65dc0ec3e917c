// Which hosts measure each other when: rounds of pairs in which no host occurs twice, so that every
// interface serves one measurement at a time.
#pragma once

#include <utility>
#include <vector>

namespace ringwood {

using PairRound = std::vector<std::pair<int, int>>;

// Every pair of 0 … hosts−1 once, the lower one first: hosts−1 rounds, or as many as there are
// hosts where they are odd (the circle method of round-robin tournaments).
std::vector<PairRound> PairRounds(int hosts);

}  // namespace ringwood
