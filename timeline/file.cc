#include "timeline/file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMaxMicroseconds = 1e15;  // 30 years of a monotonic clock
constexpr int kMaxRank = 1 << 20;
constexpr int kMaxDepth = 64;  // of JSON within JSON: an event has 2, and copies recurse

// Numbers and texts of an event; what is missing or of another type is 0 or "".
double Number(const Json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_number() ? found->get<double>() : 0;
}
std::string Text(const Json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}
Json Arguments(const Json& event) {
  const auto found = event.find("args");
  return found != event.end() && found->is_object() ? *found : Json::object();
}

StatusOr<int64_t> Nanoseconds(double microseconds) {
  if (!(std::abs(microseconds) < kMaxMicroseconds)) return Invalid("a time is out of range");
  return std::llround(microseconds * 1000);
}

// A number from a file as a T: 0 unless it is 0 to `most`, which T holds.
template <typename T>
T Bounded(double number, double most) {
  return static_cast<T>(number >= 0 && number <= most ? number : 0);
}

Status TakeSpan(const Json& event, RankTimeline* rank) {
  const Json arguments = Arguments(event);
  TimelineSpan span;
  span.name = Text(event, "name");
  span.category = Text(event, "cat");
  const int thread = Bounded<int>(Number(event, "tid"), 1e6);
  if (thread <= static_cast<int>(TimelineLane::kTree)) {
    span.lane = static_cast<TimelineLane>(thread);
  } else {  // of a group that runs beside others of its route
    span.lane = span.category == "ring" ? TimelineLane::kRing : TimelineLane::kTree;
  }
  RW_ASSIGN_OR_RETURN(span.begin_nanoseconds, Nanoseconds(Number(event, "ts")));
  RW_ASSIGN_OR_RETURN(const int64_t duration, Nanoseconds(Number(event, "dur")));
  if (duration < 0) return Invalid("a span ends before it begins");
  span.end_nanoseconds = span.begin_nanoseconds + duration;
  span.round = Bounded<uint64_t>(Number(arguments, "round"), 1e15);
  span.group = arguments.contains("group") && Number(arguments, "group") >= 0
                   ? Bounded<int>(Number(arguments, "group"), 1e9)
                   : -1;
  span.bytes = Bounded<uint64_t>(Number(arguments, "bytes"), 1e15);
  rank->spans.push_back(std::move(span));
  return OkStatus();
}

Status TakeArrow(const Json& event, bool from, RankTimeline* rank) {
  TimelineArrowEnd end;
  end.id = Text(event, "id");
  end.from = from;
  end.peer = Bounded<int>(Number(Arguments(event), "peer"), kMaxRank);
  RW_ASSIGN_OR_RETURN(end.at_nanoseconds, Nanoseconds(Number(event, "ts")));
  rank->arrows.push_back(std::move(end));
  return OkStatus();
}

Status TakeEvent(Json event, std::map<int, RankTimeline>* ranks) {
  const auto pid = event.find("pid");
  if (pid == event.end() || !pid->is_number_integer() || *pid < 0 || *pid > kMaxRank) {
    return Invalid("an event without a rank (pid)");
  }
  RankTimeline& rank = (*ranks)[pid->get<int>()];
  rank.info.rank = pid->get<int>();
  const std::string phase = Text(event, "ph");
  if (phase == "X") RW_RETURN_IF_ERROR(TakeSpan(event, &rank));
  if (phase == "s" || phase == "f") RW_RETURN_IF_ERROR(TakeArrow(event, phase == "s", &rank));
  if (phase == "M" && Text(event, "name") == "ringwood") {
    const Json arguments = Arguments(event);
    rank.info.job = std::strtoull(Text(arguments, "job").c_str(), nullptr, 16);
    rank.info.epoch = Bounded<uint64_t>(Number(arguments, "epoch"), 1e15);
    rank.info.world = Bounded<int>(Number(arguments, "world"), kMaxRank);
    rank.info.host = Text(arguments, "host");
  }
  rank.events.push_back(std::move(event));
  return OkStatus();
}

}  // namespace

Status ParseTimelineFile(const std::string& text, const std::string& file,
                         std::vector<RankTimeline>* ranks) {
  std::map<int, RankTimeline> found;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const bool cut = lines.eof();  // no newline at its end
    while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.pop_back();
    if (line.empty() || line == "[" || line == "]") continue;
    bool deep = false;
    const auto shallow = [&deep](int depth, Json::parse_event_t, const Json&) {
      deep = deep || depth > kMaxDepth;
      return !deep;
    };
    Json event = Json::parse(line, shallow, /*allow_exceptions=*/false);
    if (deep) {
      return Corrupt(absl::StrFormat("%s:%d: JSON nested more than %d deep, no event of a timeline",
                                     file, number, kMaxDepth));
    }
    if (!event.is_object()) {
      if (cut) break;
      return Corrupt(absl::StrFormat("%s:%d: not an event of a timeline", file, number));
    }
    RW_RETURN_IF_ERROR(
        Annotate(TakeEvent(std::move(event), &found), absl::StrFormat("%s:%d", file, number)));
  }
  if (found.empty()) return Invalid(file + " holds no events");
  for (auto& [rank, timeline] : found) ranks->push_back(std::move(timeline));
  return OkStatus();
}

StatusOr<std::vector<RankTimeline>> ReadTimelineFiles(const std::vector<std::string>& files) {
  std::vector<RankTimeline> ranks;
  for (const std::string& file : files) {
    std::error_code error;
    if (std::filesystem::is_directory(file, error)) {
      return Invalid(file + " is a directory; name the files in it");
    }
    if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)) {
      return Invalid(file + " is no regular file; copy what it gives into one");
    }
    std::ifstream stream(file, std::ios::binary | std::ios::ate);
    if (!stream) return NotFound(file + " cannot be read");
    if (static_cast<size_t>(stream.tellg()) > kMaxTimelineFileBytes) {
      return Invalid(file + " is above 4 GiB");
    }
    stream.seekg(0);
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    RW_RETURN_IF_ERROR(ParseTimelineFile(text, file, &ranks));
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const RankTimeline& a, const RankTimeline& b) { return a.info.rank < b.info.rank; });
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].info.rank == ranks[i - 1].info.rank) {
      return Invalid(absl::StrFormat(
          "two of the files hold node %d: give the files of one start of the job only, and none "
          "that was merged",
          ranks[i].info.rank));
    }
    if (ranks[i].info.job != ranks[0].info.job || ranks[i].info.epoch != ranks[0].info.epoch) {
      return Invalid(absl::StrFormat("nodes %d and %d are of different jobs or epochs",
                                     ranks[0].info.rank, ranks[i].info.rank));
    }
  }
  return ranks;
}

}  // namespace ringwood
