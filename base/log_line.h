// A line of a log as a value, and how it is written. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"

namespace ringwood {

struct LogLine {
  LogLevel level = LogLevel::kInfo;
  std::string who = {};  // "rank 2", "server 0", "launcher"
  std::string event = {};
  uint64_t epoch = 0;
  uint64_t step = 0;
  double unix_seconds = 0;
  uint64_t left_out = 0;  // lines of this event before it, which were not written
  std::string text = {};
};

// With its newline. JSON: {"ts": …, "level": …, "event": …, "rank": 2, "epoch": …, "step": …,
// "message": …} on one line; a server has "server" for "rank", others "who".
std::string FormatLogLine(const LogLine& line, LogFormat format);

// What every line of JSON begins with: who collects lines knows them by it.
inline constexpr char kJsonLineOpening[] = "{\"ts\":\"";

// Seconds since 1970 → "2026-11-30 14:40:17Z": as lines have it, for people.
std::string FormatMoment(double unix_seconds);

const char* NameOf(LogLevel level);

}  // namespace ringwood
