// The network that a job's plans are made for: as it was measured when the job began, or as the
// user says.
#pragma once

#include <string>

#include "base/status.h"
#include "plan/model/cost.h"

namespace ringwood {

struct MeasuredLink {
  double bytes_per_second = 0;  // payload of the slowest NIC; 0: unknown, or one host
  double hop_seconds = 0;       // of a short message to another host; 0: likewise
  bool operator==(const MeasuredLink&) const = default;
};

// The part of a hop that is delay, by SetHop.
double DelayOf(const MeasuredLink& link);

// The default network with this rate and delay, each rounded to the nearest of 1, 2.5, 5, 10, … (in
// Gbit/s of which 95.6 % are payload, and in seconds), so that runs on one network get one plan,
// though no two measurements are alike.
Network PlannedNetwork(const MeasuredLink& link);

// "10gbit", or with the delay of a hop between hosts "100mbit,20ms". The error says what is wrong.
StatusOr<Network> ParsePlannedNetwork(const std::string& text);

// "1 Gbit/s", "0.1 Gbit/s, 50 ms on the way to another host".
std::string Describe(const Network& network);

}  // namespace ringwood
