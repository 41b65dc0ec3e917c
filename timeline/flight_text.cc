// A flight record for people.
#include <ctime>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "timeline/flight_record.h"

namespace ringwood {
namespace {

std::string TimeOfDay(int64_t unix_nanoseconds) {
  const std::time_t seconds = unix_nanoseconds / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%04d-%02d-%02d %02d:%02d:%02d.%03d UTC", utc.tm_year + 1900,
                         utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                         unix_nanoseconds / 1'000'000 % 1000);
}

std::string Detail(const TimelineEvent& event) {
  switch (event.kind) {
    case TimelineKind::kReady:
      return absl::StrFormat("tensor %d", event.index);
    case TimelineKind::kSelect:
    case TimelineKind::kSelected:
    case TimelineKind::kGroup:
      return absl::StrFormat("group %d", event.index);
    case TimelineKind::kGroupEnded:
      return absl::StrFormat("group %d, %d bytes sent", event.index, event.value);
    case TimelineKind::kVoted:
      return absl::StrFormat("digest %016x", event.value);
    case TimelineKind::kCommitted:
      return event.value != 0 ? "skipped" : "";
    case TimelineKind::kPlanAdopted:
      return absl::StrFormat("%016x, %s", event.value,
                             FormatCount(static_cast<int>(event.index), "group"));
    default:
      return "";
  }
}

}  // namespace

std::string ToText(const FlightContents& contents) {
  const FlightHeader& header = contents.header;
  std::string text =
      absl::StrFormat("rank %d of %d on host %s, process %d, job %016x, epoch %d\n", header.rank,
                      header.world, header.host, header.process, header.job, header.epoch);
  if (contents.damaged > 0) {
    absl::StrAppendFormat(&text, "the file is DAMAGED: %d events are left out\n", contents.damaged);
  }
  if (contents.events.empty()) return text + "no events\n";
  const int64_t last = contents.events.back().nanoseconds;
  absl::StrAppendFormat(&text, "last event at %s; %d events, %d older ones lost\n",
                        TimeOfDay(header.unix_nanoseconds + (last - header.monotonic_nanoseconds)),
                        contents.events.size(), contents.lost);
  if (!header.failure.empty()) text += "failed: " + header.failure + "\n";
  for (const TimelineEvent& event : contents.events) {
    absl::StrAppendFormat(&text, "%13.6f s  step %d  %-16s  %s\n",
                          static_cast<double>(event.nanoseconds - last) * 1e-9, event.round,
                          NameOf(event.kind), Detail(event));
  }
  return text;
}

}  // namespace ringwood
