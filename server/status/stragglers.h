// Which ranks hold the others up, and with what: from how their last steps went. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "server/status/slot_record.h"

namespace ringwood {

// A rank whose last gradient comes later than the first rank's by more than this share of a step is
// a straggler.
inline constexpr double kStragglesFrom = 0.1;

// By slot, of the ranks in the epoch: why each straggler is one.
std::map<uint32_t, std::string> WhyStraggle(const std::map<uint32_t, RecentStep>& ranks);

}  // namespace ringwood
