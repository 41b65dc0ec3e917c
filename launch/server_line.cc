#include "launch/server_line.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_format.h"
#include "launch/rank_list.h"

namespace ringwood {
namespace {

struct Opening {
  const char* words;
  ServerLine::Kind kind;
};
constexpr Opening kOpenings[] = {{kListening, ServerLine::Kind::kListening},
                                 {kVerdict, ServerLine::Kind::kVerdict},
                                 {kRecovery, ServerLine::Kind::kRecovery},
                                 {kAwaits, ServerLine::Kind::kAwaits},
                                 {kEpoch, ServerLine::Kind::kEpoch}};

// "0-2,5"; of another form: none.
void ReadRanks(const std::string& text, ServerLine* line) {
  if (auto ranks = ParseRankList(text); ranks.ok()) line->ranks = *ranks;
}

// "3 0-2,5" to its parts; one of another form is nobody's epoch.
void ReadEpoch(ServerLine* line) {
  const size_t space = line->text.find(' ');
  if (space == std::string::npos) return;
  if (std::sscanf(line->text.c_str(), "%" SCNu64 " ", &line->epoch) != 1) return;
  ReadRanks(line->text.substr(space + 1), line);
}

}  // namespace

std::optional<ServerLine> ReadServerLine(const std::string& line) {
  for (const Opening& opening : kOpenings) {
    const size_t length = std::strlen(opening.words);
    if (line.compare(0, length, opening.words) != 0) continue;
    ServerLine read{opening.kind, line.substr(length), -1, 0, {}};
    if (read.kind == ServerLine::Kind::kEpoch) ReadEpoch(&read);
    if (read.kind == ServerLine::Kind::kAwaits) ReadRanks(read.text, &read);
    int rank = -1;
    if (std::sscanf(read.text.c_str(), "rank %d ", &rank) == 1 && rank >= 0) read.rank = rank;
    return read;
  }
  return std::nullopt;
}

std::string AwaitsLine(const std::vector<int>& ranks) { return kAwaits + RankList(ranks); }

std::string EpochLine(uint64_t epoch, const std::vector<int>& ranks) {
  return absl::StrFormat("%s%d %s", kEpoch, epoch, RankList(ranks));
}

}  // namespace ringwood
