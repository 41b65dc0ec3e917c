// Lanes that run at the same time and share one card: with q transfers under way each gets its
// share of the bandwidth, so how long a message takes depends on what starts later.
#pragma once

#include <vector>

namespace ringwood {

struct CardMessage {
  int lane = 0;  // a lane sends its messages in the order of the list, one after the other
  double ready_seconds = 0;
  double startup_seconds = 0;   // passes undisturbed
  double transfer_seconds = 0;  // alone on the card
};

// End of each message. q concurrent transfers each run at rate 1 / (1 + penalty * (q - 1));
// penalty 1: the bandwidth is shared fairly.
std::vector<double> PlaySharedCard(const std::vector<CardMessage>& messages, double penalty);

}  // namespace ringwood
