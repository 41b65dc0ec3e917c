// Sizes, times and counts as people read and type them.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ringwood {

// "64", "64k", "4M", "1.5G" (powers of 1024; a trailing "B" or "iB" is allowed) → bytes.
StatusOr<uint64_t> ParseBytes(const std::string& text);

// "90s", "30m", "8h", "7d" → seconds, above 0, at most 10000 days. A number without a unit is none.
StatusOr<double> ParseDuration(const std::string& text);

// 1536 → "1.5 KiB".
std::string FormatBytes(double bytes);

// 0.00123 → "1.23 ms".
std::string FormatSeconds(double seconds);

// "1 rank", "4 ranks".
std::string FormatCount(int number, const std::string& noun);

}  // namespace ringwood
