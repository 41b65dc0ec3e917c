#include "timeline/summary.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/median.h"
#include "base/units.h"

namespace ringwood {
namespace {

constexpr double kStandsOut = 0.05;  // of a step: below it a lateness is everyday noise
constexpr double kSlowLink = 2;      // times the median link,
constexpr double kSlowWay = 0.01;    // and of a step

using Interval = std::pair<int64_t, int64_t>;

double ToSeconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

// Total length of the union, of what lies before `limit`.
double Covered(std::vector<Interval> intervals, int64_t limit) {
  std::sort(intervals.begin(), intervals.end());
  int64_t total = 0;
  int64_t end = INT64_MIN;
  for (const auto& [from, to] : intervals) {
    const int64_t begin = std::max(from, end);
    const int64_t stop = std::min(to, limit);
    if (stop > begin) total += stop - begin;
    end = std::max(end, to);
  }
  return ToSeconds(total);
}

// One round of one rank.
struct Round {
  int64_t begin = 0, first_gradient = 0, last_gradient = 0, end = 0;
  bool whole = false;
  std::vector<Interval> select, exchange;
  double vote = 0, apply = 0;
};

void Take(const TimelineSpan& span, Round* round) {
  const Interval interval{span.begin_nanoseconds, span.end_nanoseconds};
  if (span.category == "forward") {
    round->begin = interval.first;
    round->first_gradient = interval.second;
    round->last_gradient = std::max(round->last_gradient, interval.second);
  } else if (span.category == "backward") {
    round->last_gradient = std::max(round->last_gradient, interval.second);
  } else if (span.category == "select") {
    round->select.push_back(interval);
  } else if (span.category == "ring" || span.category == "tree") {
    round->exchange.push_back(interval);
  } else if (span.category == "vote") {
    round->vote = ToSeconds(interval.second - interval.first);
  } else if (span.category == "apply") {
    round->apply = ToSeconds(interval.second - interval.first);
    round->end = interval.second;
    round->whole = true;
  }
}

std::map<uint64_t, Round> RoundsOf(const RankTimeline& rank) {
  std::map<uint64_t, Round> rounds;
  for (const TimelineSpan& span : rank.spans) Take(span, &rounds[span.round]);
  std::erase_if(rounds,
                [](const auto& item) { return !item.second.whole || item.second.begin == 0; });
  if (rounds.size() > 1) rounds.erase(rounds.begin());
  return rounds;
}

RankSummary Summarize(const TimelineInfo& info, const std::map<uint64_t, Round>& rounds) {
  std::map<std::string, std::vector<double>> values;
  for (const auto& [number, round] : rounds) {
    values["step"].push_back(ToSeconds(round.end - round.begin));
    values["forward"].push_back(ToSeconds(round.first_gradient - round.begin));
    values["backward"].push_back(ToSeconds(round.last_gradient - round.first_gradient));
    values["select"].push_back(Covered(round.select, INT64_MAX));
    values["exchange"].push_back(Covered(round.exchange, INT64_MAX));
    values["hidden"].push_back(Covered(round.exchange, round.last_gradient));
    values["exposed"].push_back(ToSeconds(round.end - round.last_gradient));
    values["vote"].push_back(round.vote);
    values["apply"].push_back(round.apply);
  }
  RankSummary summary;
  summary.rank = info.rank;
  summary.host = info.host;
  summary.rounds = static_cast<int>(rounds.size());
  summary.step = Median(values["step"]);
  summary.forward = Median(values["forward"]);
  summary.backward = Median(values["backward"]);
  summary.select = Median(values["select"]);
  summary.exchange = Median(values["exchange"]);
  summary.hidden = Median(values["hidden"]);
  summary.exposed = Median(values["exposed"]);
  summary.vote = Median(values["vote"]);
  summary.apply = Median(values["apply"]);
  return summary;
}

void SetLateness(const std::vector<std::map<uint64_t, Round>>& rounds,
                 std::vector<RankSummary>* ranks) {
  for (size_t r = 0; r < ranks->size(); ++r) {
    std::vector<double> late;
    for (const auto& [number, round] : rounds[r]) {
      int64_t first = round.last_gradient;
      for (const auto& other : rounds) {
        const auto found = other.find(number);
        if (found != other.end()) first = std::min(first, found->second.last_gradient);
      }
      late.push_back(ToSeconds(round.last_gradient - first));
    }
    (*ranks)[r].late = Median(late);
  }
}

std::vector<LinkSummary> Links(const std::vector<RankTimeline>& ranks) {
  struct Ends {
    int from = -1;
    int64_t sent = 0;
  };
  std::map<std::string, Ends> sent;
  for (const RankTimeline& rank : ranks) {
    for (const TimelineArrowEnd& end : rank.arrows) {
      if (end.from) sent[end.id] = {rank.info.rank, end.at_nanoseconds};
    }
  }
  std::map<std::pair<int, int>, std::vector<double>> ways;
  for (const RankTimeline& rank : ranks) {
    for (const TimelineArrowEnd& end : rank.arrows) {
      const auto found = sent.find(end.id);
      if (end.from || found == sent.end()) continue;
      ways[{found->second.from, rank.info.rank}].push_back(
          ToSeconds(end.at_nanoseconds - found->second.sent));
    }
  }
  std::vector<LinkSummary> links;
  for (const auto& [way, seconds] : ways) {
    links.push_back({way.first, way.second, Median(seconds)});
  }
  return links;
}

// Which phase makes `slow` longer than the others, in words.
std::string WhyLate(const RankSummary& slow, const std::vector<RankSummary>& ranks) {
  std::vector<double> forward;
  std::vector<double> backward;
  for (const RankSummary& rank : ranks) {
    if (rank.rank == slow.rank) continue;
    forward.push_back(rank.forward);
    backward.push_back(rank.backward);
  }
  const double more_forward = slow.forward - Median(forward);
  const double more_backward = slow.backward - Median(backward);
  if (more_forward >= more_backward) {
    return absl::StrFormat("forward or loading samples takes it %s against %s",
                           FormatSeconds(slow.forward), FormatSeconds(Median(forward)));
  }
  return absl::StrFormat("backward takes it %s against %s", FormatSeconds(slow.backward),
                         FormatSeconds(Median(backward)));
}

ServerSummary SummarizeServer(const RankTimeline& server) {
  std::map<uint64_t, double> reduce;  // by round
  for (const TimelineSpan& span : server.spans) {
    reduce[span.round] += ToSeconds(span.end_nanoseconds - span.begin_nanoseconds);
  }
  if (reduce.size() > 1) reduce.erase(reduce.begin());
  std::vector<double> seconds;
  for (const auto& [round, sum] : reduce) seconds.push_back(sum);
  return {.server = server.info.rank - server.info.world,
          .host = server.info.host,
          .rounds = static_cast<int>(reduce.size()),
          .reduce = Median(seconds)};
}

void Judge(TimelineSummary* summary) {
  const auto& ranks = summary->ranks;
  const auto slow =
      std::max_element(ranks.begin(), ranks.end(),
                       [](const RankSummary& a, const RankSummary& b) { return a.late < b.late; });
  if (ranks.size() > 1 && slow->late > kStandsOut * slow->step) {
    summary->slowest = slow->rank;
    summary->verdict = absl::StrFormat(
        "rank %d (host %s) is the slowest: its last gradient comes %s after the first rank's; %s",
        slow->rank, slow->host, FormatSeconds(slow->late), WhyLate(*slow, ranks));
    return;
  }
  std::vector<double> ways;
  for (const LinkSummary& link : summary->links) ways.push_back(link.seconds);
  const auto worst = std::max_element(
      summary->links.begin(), summary->links.end(),
      [](const LinkSummary& a, const LinkSummary& b) { return a.seconds < b.seconds; });
  if (ways.size() > 1 && worst->seconds > kSlowLink * Median(ways) &&
      worst->seconds > kSlowWay * slow->step) {
    summary->verdict =
        absl::StrFormat("the network from %s to %s is the slowest: messages take %s, elsewhere %s",
                        NodeName(*summary, worst->from), NodeName(*summary, worst->to),
                        FormatSeconds(worst->seconds), FormatSeconds(Median(ways)));
    return;
  }
  summary->verdict = "no rank or link stands out";
}

}  // namespace

std::string NodeName(const TimelineSummary& summary, int node) {
  const bool server = node >= summary.world;
  return absl::StrFormat("%s %d", server ? "server" : "rank", server ? node - summary.world : node);
}

StatusOr<TimelineSummary> Summarize(const std::vector<RankTimeline>& ranks) {
  TimelineSummary summary;
  std::vector<std::map<uint64_t, Round>> rounds;
  for (const RankTimeline& rank : ranks) {
    if (rank.info.rank >= rank.info.world) {
      summary.servers.push_back(SummarizeServer(rank));
      continue;
    }
    summary.world = rank.info.world;
    rounds.push_back(RoundsOf(rank));
    if (rounds.back().empty()) {
      return Invalid(absl::StrFormat("the timeline of rank %d has no whole step", rank.info.rank));
    }
    summary.ranks.push_back(Summarize(rank.info, rounds.back()));
  }
  if (summary.ranks.empty()) return Invalid("there is no timeline of a rank");
  SetLateness(rounds, &summary.ranks);
  summary.links = Links(ranks);
  Judge(&summary);
  return summary;
}

}  // namespace ringwood
