// Ranks as one word, "0-2,5": thousands of them fit into a line.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

// `ranks` in ascending order; "" for none.
std::string RankList(const std::vector<int>& ranks);

// Invalid: anything that RankList does not write of ranks below kMaxRanks.
StatusOr<std::vector<int>> ParseRankList(const std::string& text);

}  // namespace ringwood
