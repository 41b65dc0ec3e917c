// Several ranks' timelines on one clock.
#pragma once

#include <string>
#include <vector>

#include "timeline/file.h"

namespace ringwood {

// Nanoseconds to add to each rank's times so that they are times of the first rank's clock.
//
// Nothing arrives before it was sent: a message from rank to rank, and a round's commit, which
// answers every rank after every rank has voted. The least difference seen from i to j, over all
// messages and rounds, and over all paths, bounds j's clock against i's from one side, those from j
// to i bound it from the other; the offset is the middle. Its error is at most half the least round
// trip, and no message of the result arrives before it was sent. A rank that shares neither rounds
// nor messages with the others gets 0.
std::vector<int64_t> ClockOffsets(const std::vector<RankTimeline>& ranks);

// Shifts spans, arrows and events.
void Align(std::vector<RankTimeline>* ranks);

// One file: a closed JSON array, events in order of time.
std::string MergedTimeline(const std::vector<RankTimeline>& ranks);

}  // namespace ringwood
