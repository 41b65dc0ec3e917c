// A summary for people and for programs.
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/table.h"
#include "base/units.h"
#include "timeline/summary.h"

namespace ringwood {

std::string ToText(const TimelineSummary& summary) {
  std::vector<std::vector<std::string>> rows = {{"RANK", "HOST", "STEPS", "STEP", "FORWARD",
                                                 "BACKWARD", "SELECT", "EXCHANGE", "OVERLAP",
                                                 "EXPOSED", "VOTE", "APPLY", "LATE"}};
  for (const RankSummary& rank : summary.ranks) {
    rows.push_back({std::to_string(rank.rank), rank.host, std::to_string(rank.rounds),
                    FormatSeconds(rank.step), FormatSeconds(rank.forward),
                    FormatSeconds(rank.backward), FormatSeconds(rank.select),
                    FormatSeconds(rank.exchange), absl::StrFormat("%.0f%%", 100 * rank.overlap()),
                    FormatSeconds(rank.exposed), FormatSeconds(rank.vote),
                    FormatSeconds(rank.apply), FormatSeconds(rank.late)});
  }
  std::string text = FormatTable(rows);
  if (!summary.servers.empty()) {
    std::vector<std::vector<std::string>> servers = {{"SERVER", "HOST", "STEPS", "REDUCE"}};
    for (const ServerSummary& server : summary.servers) {
      servers.push_back({std::to_string(server.server), server.host, std::to_string(server.rounds),
                         FormatSeconds(server.reduce)});
    }
    text += "\n" + FormatTable(servers);
  }
  if (!summary.links.empty()) {
    std::vector<std::vector<std::string>> links = {{"FROM", "TO", "FIRST MESSAGE"}};
    for (const LinkSummary& link : summary.links) {
      links.push_back(
          {NodeName(summary, link.from), NodeName(summary, link.to), FormatSeconds(link.seconds)});
    }
    text += "\n" + FormatTable(links);
  }
  return text + "\n" + summary.verdict + "\n";
}

std::string ToJson(const TimelineSummary& summary) {
  nlohmann::ordered_json json;
  json["verdict"] = summary.verdict;
  json["slowest"] = summary.slowest;
  json["ranks"] = nlohmann::ordered_json::array();
  for (const RankSummary& rank : summary.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"host", rank.host},
                             {"rounds", rank.rounds},
                             {"step_s", rank.step},
                             {"forward_s", rank.forward},
                             {"backward_s", rank.backward},
                             {"select_s", rank.select},
                             {"exchange_s", rank.exchange},
                             {"hidden_s", rank.hidden},
                             {"overlap", rank.overlap()},
                             {"exposed_s", rank.exposed},
                             {"vote_s", rank.vote},
                             {"apply_s", rank.apply},
                             {"late_s", rank.late}});
  }
  json["servers"] = nlohmann::ordered_json::array();
  for (const ServerSummary& server : summary.servers) {
    json["servers"].push_back({{"server", server.server},
                               {"host", server.host},
                               {"rounds", server.rounds},
                               {"reduce_s", server.reduce}});
  }
  json["world"] = summary.world;  // nodes of links from it on are servers
  json["links"] = nlohmann::ordered_json::array();
  for (const LinkSummary& link : summary.links) {
    json["links"].push_back({{"from", link.from}, {"to", link.to}, {"seconds", link.seconds}});
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ringwood
