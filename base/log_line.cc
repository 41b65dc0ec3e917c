#include "base/log_line.h"

#include <algorithm>
#include <ctime>

#include "absl/strings/str_format.h"
#include "base/quoted.h"

namespace ringwood {
namespace {

// "2026-11-23T04:10:09.123456Z".
std::string Timestamp(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm parts = {};
  ::gmtime_r(&whole, &parts);
  const double rest = unix_seconds - static_cast<double>(whole);
  const int micros = std::clamp(static_cast<int>(rest * 1e6), 0, 999'999);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", parts.tm_year + 1900,
                         parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                         micros);
}

// `"rank":2` of "rank 2".
std::string Speaker(const std::string& who) {
  for (const std::string kind : {"rank", "server"}) {
    if (who.size() <= kind.size() + 1 || who.compare(0, kind.size(), kind) != 0) continue;
    const std::string number = who.substr(kind.size() + 1);
    const bool digits = number.find_first_not_of("0123456789") == std::string::npos;
    if (digits && who[kind.size()] == ' ') return JsonString(kind) + ":" + number;
  }
  return "\"who\":" + JsonString(who);
}

}  // namespace

std::string FormatMoment(double unix_seconds) {
  const std::string all = Timestamp(unix_seconds);
  return all.substr(0, 10) + " " + all.substr(11, 8) + "Z";
}

const char* NameOf(LogLevel level) {
  constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  return kNames[static_cast<int>(level)];
}

std::string FormatLogLine(const LogLine& line, LogFormat format) {
  const std::string more =
      line.left_out == 0 ? "" : absl::StrFormat(" (%d more like it were left out)", line.left_out);
  if (format == LogFormat::kText) {
    const char level = "DIWE"[static_cast<int>(line.level)];
    return std::string(1, level) + " " + line.who + ": " + line.text + more + "\n";
  }
  return kJsonLineOpening + absl::StrFormat(
                                "%s\",\"level\":\"%s\",\"event\":%s,%s,\"epoch\":%d,\"step\":%d,"
                                "\"message\":%s}\n",
                                Timestamp(line.unix_seconds), NameOf(line.level),
                                JsonString(line.event), Speaker(line.who), line.epoch, line.step,
                                JsonString(line.text + more));
}

}  // namespace ringwood
