#include "launch/rank_list.h"

#include <cstdio>
#include <sstream>

#include "absl/strings/str_format.h"
#include "launch/hosts.h"

namespace ringwood {

std::string RankList(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    absl::StrAppendFormat(&text, "%s%d", text.empty() ? "" : ",", ranks[i]);
    if (end - i > 1) absl::StrAppendFormat(&text, "-%d", ranks[end - 1]);
    i = end;
  }
  return text;
}

StatusOr<std::vector<int>> ParseRankList(const std::string& text) {
  std::vector<int> ranks;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = -1, last = -1;
    const int read = std::sscanf(part.c_str(), "%d-%d", &first, &last);
    if (read == 1) last = first;
    const bool ascends = ranks.empty() || first > ranks.back();
    if (read < 1 || first < 0 || last < first || last >= kMaxRanks || !ascends) {
      return Invalid("\"" + text + "\" is no list of ranks");
    }
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  if (RankList(ranks) != text) return Invalid("\"" + text + "\" is no list of ranks");
  return ranks;
}

}  // namespace ringwood
