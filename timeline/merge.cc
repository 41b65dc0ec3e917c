#include "timeline/merge.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace ringwood {
namespace {

// Nanoseconds. Differences along a path of ranks may exceed 64 bits where files have impossible
// times; up to there they are exact.
using Distance = long double;
constexpr Distance kUnknown = std::numeric_limits<Distance>::infinity();

// No offset is larger, so that a time with its offset stays within 64 bits.
constexpr Distance kMostOffset = int64_t{1} << 62;

// Least (time at the second - time at the first) between things known to be in that order.
using Least = std::map<std::pair<size_t, size_t>, int64_t>;

void Take(size_t from, size_t to, int64_t difference, Least* least) {
  const auto [found, added] = least->try_emplace({from, to}, difference);
  if (!added) found->second = std::min(found->second, difference);
}

// Every vote of a round comes before every commit of it.
void TakeVotes(const std::vector<RankTimeline>& ranks, Least* least) {
  struct Vote {
    size_t rank;
    int64_t begin, end;
  };
  std::map<uint64_t, std::vector<Vote>> rounds;
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const TimelineSpan& span : ranks[r].spans) {
      if (span.category != "vote") continue;
      rounds[span.round].push_back({r, span.begin_nanoseconds, span.end_nanoseconds});
    }
  }
  for (const auto& [round, votes] : rounds) {
    for (const Vote& one : votes) {
      for (const Vote& other : votes) {
        if (one.rank != other.rank) Take(one.rank, other.rank, other.end - one.begin, least);
      }
    }
  }
}

void TakeMessages(const std::vector<RankTimeline>& ranks, Least* least) {
  std::map<std::string, std::pair<size_t, int64_t>> sent;
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const TimelineArrowEnd& end : ranks[r].arrows) {
      if (end.from) sent[end.id] = {r, end.at_nanoseconds};
    }
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const TimelineArrowEnd& end : ranks[r].arrows) {
      const auto found = sent.find(end.id);
      if (end.from || found == sent.end() || found->second.first == r) continue;
      Take(found->second.first, r, end.at_nanoseconds - found->second.second, least);
    }
  }
}

// Shortest paths from the first rank (Bellman and Ford), or to it: with `least` turned round.
std::vector<Distance> Shortest(const Least& least, size_t ranks, bool turned) {
  std::vector<Distance> distance(ranks, kUnknown);
  distance[0] = 0;
  bool changed = true;
  for (size_t pass = 0; pass < ranks && changed; ++pass) {
    changed = false;
    for (const auto& [pair, difference] : least) {
      const size_t from = turned ? pair.second : pair.first;
      const size_t to = turned ? pair.first : pair.second;
      if (distance[from] + difference >= distance[to]) continue;
      distance[to] = distance[from] + difference;
      changed = true;
    }
  }
  return distance;
}

double TimeOf(const nlohmann::ordered_json& event) {
  const auto found = event.find("ts");
  return found != event.end() && found->is_number() ? found->get<double>() : -1;
}

}  // namespace

std::vector<int64_t> ClockOffsets(const std::vector<RankTimeline>& ranks) {
  std::vector<int64_t> offsets(ranks.size(), 0);
  if (ranks.empty()) return offsets;
  Least least;
  TakeVotes(ranks, &least);
  TakeMessages(ranks, &least);
  const std::vector<Distance> from_first = Shortest(least, ranks.size(), false);
  const std::vector<Distance> to_first = Shortest(least, ranks.size(), true);
  for (size_t r = 1; r < ranks.size(); ++r) {
    if (from_first[r] == kUnknown || to_first[r] == kUnknown) continue;
    const Distance offset = (to_first[r] - from_first[r]) / 2;
    offsets[r] = static_cast<int64_t>(std::clamp(offset, -kMostOffset, kMostOffset));
  }
  return offsets;
}

void Align(std::vector<RankTimeline>* ranks) {
  const std::vector<int64_t> offsets = ClockOffsets(*ranks);
  for (size_t r = 0; r < ranks->size(); ++r) {
    RankTimeline& rank = (*ranks)[r];
    for (TimelineSpan& span : rank.spans) {
      span.begin_nanoseconds += offsets[r];
      span.end_nanoseconds += offsets[r];
    }
    for (TimelineArrowEnd& end : rank.arrows) end.at_nanoseconds += offsets[r];
    for (nlohmann::ordered_json& event : rank.events) {
      if (event.contains("ts"))
        event["ts"] = TimeOf(event) + static_cast<double>(offsets[r]) * 1e-3;
    }
  }
}

std::string MergedTimeline(const std::vector<RankTimeline>& ranks) {
  std::vector<const nlohmann::ordered_json*> events;
  for (const RankTimeline& rank : ranks) {
    for (const nlohmann::ordered_json& event : rank.events) events.push_back(&event);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto* a, const auto* b) { return TimeOf(*a) < TimeOf(*b); });
  std::string text = "[\n";
  for (size_t i = 0; i < events.size(); ++i) {
    text += events[i]->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    text += i + 1 < events.size() ? ",\n" : "\n";
  }
  return text + "]\n";
}

}  // namespace ringwood
