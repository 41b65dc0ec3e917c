// Lines of a server's standard output that are for its launcher: `ringwood server` writes them,
// `ringwood run` reads them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringwood {

// Each begins with one of these.
// HOST:PORT; of a reducer without a store "no port: …".
inline constexpr char kListening[] = "ringwood server listening on ";
// An epoch that ended by a failure: the coordinator's sentence, which begins with "rank N " where a
// rank is the cause. An elastic job recovers from it.
inline constexpr char kVerdict[] = "ringwood server verdict: ";
inline constexpr char kRecovery[] = "ringwood server goes on: ";
inline constexpr char kAwaits[] = "ringwood server awaits ranks ";  // others wait for these: RANKS
inline constexpr char kEpoch[] = "ringwood server epoch ";  // of an elastic job: EPOCH RANKS

struct ServerLine {
  enum class Kind { kListening, kVerdict, kRecovery, kAwaits, kEpoch };
  Kind kind;
  std::string text;        // the address, or the sentence
  int rank = -1;           // that the sentence names
  uint64_t epoch = 0;      // that begins
  std::vector<int> ranks;  // that take part in it, or are awaited
};

// Empty: the line is for the user.
std::optional<ServerLine> ReadServerLine(const std::string& line);

// Without the newline. `ranks` in ascending order.
std::string AwaitsLine(const std::vector<int>& ranks);
std::string EpochLine(uint64_t epoch, const std::vector<int>& ranks);

}  // namespace ringwood
