// Lanes that run at the same time and share one NIC: with q transfers under way each gets its
// share of the bandwidth, so how long a message takes depends on what starts later.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace ringwood {

struct NicMessage {
  int lane = 0;  // a lane sends its messages in the order of the list, one after the other
  double ready_seconds = 0;
  double startup_seconds = 0;   // passes undisturbed
  double transfer_seconds = 0;  // alone on the NIC
};

constexpr double kNothingOfAPhase = 1e-15;  // seconds; what is left of a phase that is over

struct NicWork {
  double startup;
  double transfer;
  bool over = false;
};

// The first unfinished message of each lane.
inline std::vector<size_t> HeadsOfLanes(const std::vector<NicMessage>& messages,
                                        const std::vector<NicWork>& work) {
  std::vector<size_t> heads;
  std::vector<bool> seen;
  for (size_t m = 0; m < messages.size(); ++m) {
    const size_t lane = static_cast<size_t>(messages[m].lane);
    if (seen.size() <= lane) seen.resize(lane + 1);
    if (work[m].over || seen[lane]) continue;
    seen[lane] = true;
    heads.push_back(m);
  }
  return heads;
}

// End of each message. q concurrent transfers each run at rate 1 / (1 + penalty * (q - 1));
// penalty 1: the bandwidth is shared fairly.
inline std::vector<double> PlaySharedNic(const std::vector<NicMessage>& messages, double penalty) {
  std::vector<NicWork> work;
  for (const NicMessage& m : messages) work.push_back({m.startup_seconds, m.transfer_seconds});
  std::vector<double> ends(messages.size(), 0);
  double now = 0;
  for (size_t left = messages.size(); left > 0;) {
    int transfers = 0;
    double step = std::numeric_limits<double>::infinity();
    const std::vector<size_t> heads = HeadsOfLanes(messages, work);
    for (const size_t m : heads) {
      const bool ready = messages[m].ready_seconds <= now;
      if (ready && work[m].startup <= 0) ++transfers;
    }
    const double rate = 1 / (1 + penalty * std::max(0, transfers - 1));
    for (const size_t m : heads) {
      if (messages[m].ready_seconds > now) {
        step = std::min(step, messages[m].ready_seconds - now);
      } else {
        step = std::min(step, work[m].startup > 0 ? work[m].startup : work[m].transfer / rate);
      }
    }
    for (const size_t m : heads) {
      if (messages[m].ready_seconds > now) continue;
      double& phase = work[m].startup > 0 ? work[m].startup : work[m].transfer;
      phase -= &phase == &work[m].startup ? step : step * rate;
      if (phase < kNothingOfAPhase) phase = 0;
      if (work[m].startup <= 0 && work[m].transfer <= 0) {
        work[m].over = true;
        ends[m] = now + step;
        --left;
      }
    }
    now += step;
  }
  return ends;
}

}  // namespace ringwood
