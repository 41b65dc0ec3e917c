// Summarizes the timelines of a run: how much of the exchange was hidden by computing, how much was
// exposed, and which rank or link held the others up. Pure.
#pragma once

#include <string>
#include <vector>

#include "timeline/file.h"

namespace ringwood {

// Medians over the rounds, seconds.
struct RankSummary {
  int rank = 0;
  std::string host;
  int rounds = 0;
  double step = 0;      // from the round's begin to its end
  double forward = 0;   // until the first gradient: forward and loading samples
  double backward = 0;  // from the first gradient to the last
  double select = 0;    // packing and selection, busy time
  double exchange = 0;  // some lane had a group
  double hidden = 0;    // of that, while the trainer still computed
  double exposed = 0;   // from the last gradient to the end of the round
  double vote = 0;      // of that, waiting for the commit
  double apply = 0;     // of that, writing the averages
  double late = 0;      // its last gradient after that of the rank which was first
  double overlap() const { return exchange > 0 ? hidden / exchange : 1; }
};

// A reducer's part of a step, seconds, median over the rounds.
struct ServerSummary {
  int server = 0;
  std::string host;
  int rounds = 0;
  double reduce = 0;  // from all entries received to all answers sent: merging, selecting, sending
};

// The time of first messages from one node to another: ranks, then servers.
struct LinkSummary {
  int from = 0;
  int to = 0;
  double seconds = 0;  // median from sending to having received
};

struct TimelineSummary {
  std::vector<RankSummary> ranks;
  std::vector<ServerSummary> servers;  // those whose timelines were given
  std::vector<LinkSummary> links;
  int world = 0;        // nodes from it on are servers
  int slowest = -1;     // rank; -1: none stands out
  std::string verdict;  // which rank or link is slow, by how much, and why
};

// Of aligned timelines. The first round of each rank is left out if there are more: it includes
// one-time work. kInvalidArgument when no rank has a whole round.
StatusOr<TimelineSummary> Summarize(const std::vector<RankTimeline>& ranks);

// "rank 2", "server 0".
std::string NodeName(const TimelineSummary& summary, int node);

std::string ToText(const TimelineSummary& summary);
std::string ToJson(const TimelineSummary& summary);  // one line without its newline

}  // namespace ringwood
