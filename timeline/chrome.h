// Timelines in the Trace Event Format, which chrome://tracing and Perfetto open. One event a line
// of an array that is never closed (the format allows it): a file that was cut anywhere is good up
// to its last whole line. One process a rank, one thread a TimelineLane, and more for groups of a
// route that run at the same time. Times in microseconds.
#pragma once

#include <string>
#include <vector>

#include "timeline/chunk.h"
#include "timeline/span.h"

namespace ringwood {

// The start of a rank's file: names of process and threads, and an event "ringwood" with the info.
std::string ChromeOpening(const TimelineInfo& info);

// Of one round, in order of their begins.
std::string ChromeLines(int rank, const std::vector<TimelineSpan>& spans);

// Each chunk as a bar of its own, and an arrow's end for every peer that it sent to or received
// from. Both ends make the same id of it, so that arrows join the ranks' files.
std::string ChromeLines(int rank, const std::vector<TimelineChunk>& chunks);

}  // namespace ringwood
