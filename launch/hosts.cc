#include "launch/hosts.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/net/socket_address.h"
#include "launch/network.h"
#include "timeline/name.h"

namespace ringwood {
namespace {

StatusOr<int> ParseSlots(const std::string& text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kMaxRanks) {
    return Invalid(
        absl::StrFormat("\"%s\" is not a number of slots; give 1 to %d", text, kMaxRanks));
  }
  return slots;
}

// "h1", "node-3.rack_2": words of letters, digits, '-' and '_' with one dot between them.
bool IsDotted(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_';
  });
  return plain && !text.empty() && text.front() != '-' && text.front() != '.' &&
         text.back() != '.' && text.find("..") == std::string::npos;
}

// A name goes to the remote shell as one argument: nothing that a shell or an option parser reads
// differently may stand in it.
Status CheckName(const std::string& name) {
  const size_t at = name.find('@');
  const std::string host = at == std::string::npos ? name : name.substr(at + 1);
  if ((at == std::string::npos || IsDotted(name.substr(0, at))) &&
      (IsDotted(host) || SocketAddress::Parse(host, 0).ok())) {
    return OkStatus();
  }
  return Invalid(
      absl::StrFormat("\"%s\" is not a host name: NAME or USER@NAME, of letters, digits, '-', '_' "
                      "and single dots between them, or an IP address",
                      absl::CHexEscape(name)));
}

// "h1:4", "me@h1", "[fd00::1]:4": an IPv6 address stands in brackets here.
StatusOr<Host> ParseItem(const std::string& item) {
  const size_t close = item.find(']');
  const size_t colon = item.find(':', close == std::string::npos ? 0 : close);
  Host host;
  host.name = item.substr(0, colon);
  const size_t at = host.name.find('@');
  const size_t begin = at == std::string::npos ? 0 : at + 1;
  if (SocketAddress::Parse(item.substr(begin), 0).ok() && colon != std::string::npos) {
    return Invalid("an IPv6 address stands in brackets: [" + item.substr(begin) + "]");
  }
  if (close != std::string::npos && host.name.back() == ']' && host.name[begin] == '[') {
    host.name.pop_back();
    host.name.erase(begin, 1);
  }
  RW_RETURN_IF_ERROR(CheckName(host.name));
  if (colon != std::string::npos) {
    RW_ASSIGN_OR_RETURN(host.slots, ParseSlots(item.substr(colon + 1)));
  }
  return host;
}

Status CheckUnique(const std::vector<Host>& hosts) {
  std::set<std::string> names;
  for (const Host& host : hosts) {
    // Whoever logs in there.
    if (!names.insert(host.name.substr(host.name.find('@') + 1)).second) {
      return Invalid(absl::StrFormat(
          "host %s is named twice; name it once, with the sum of its slots", host.name));
    }
  }
  return OkStatus();
}

StatusOr<Host> ParseHostLine(const std::string& line) {
  std::istringstream words(line);
  Host host;
  words >> host.name;
  RW_RETURN_IF_ERROR(CheckName(host.name));
  std::string word;
  while (words >> word) {
    if (word.rfind("slots=", 0) != 0) {
      return Invalid(absl::StrFormat("\"%s\" is not known; a line is \"NAME slots=N\"", word));
    }
    if (host.slots != 0) return Invalid("the slots of " + host.name + " are given twice");
    RW_ASSIGN_OR_RETURN(host.slots, ParseSlots(word.substr(6)));
  }
  return host;
}

}  // namespace

StatusOr<std::vector<Host>> ParseHosts(const std::string& text) {
  std::vector<Host> hosts;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const auto host = ParseItem(item);
    if (!host.ok()) return Annotate(host.status(), "-H " + text);
    hosts.push_back(*host);
  }
  if (hosts.empty()) return Invalid("-H names no host; write it as -H h1:4,h2:4");
  if (Status status = CheckUnique(hosts); !status.ok()) return Annotate(status, "-H " + text);
  return hosts;
}

StatusOr<std::vector<Host>> ParseHostFile(const std::string& text, const std::string& path) {
  std::vector<Host> hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    StatusOr<Host> host = ParseHostLine(line);
    Status status = host.status();
    if (status.ok()) {
      hosts.push_back(*host);
      status = CheckUnique(hosts);
    }
    if (!status.ok()) return Annotate(status, absl::StrFormat("%s line %d", path, number));
  }
  if (hosts.empty()) return Invalid(path + " names no host; a line is \"NAME slots=N\"");
  return hosts;
}

StatusOr<std::vector<HostRanks>> PlaceRanks(const std::vector<Host>& hosts, int ranks) {
  if (ranks < 0 || ranks > kMaxRanks) {
    return Invalid(absl::StrFormat("-np %d: give 1 to %d ranks", ranks, kMaxRanks));
  }
  int64_t slots = 0;
  int open = 0;  // hosts that did not say
  for (const Host& host : hosts) {
    slots += host.slots;
    if (host.slots == 0) ++open;
  }
  if (ranks == 0) ranks = static_cast<int>(std::min<int64_t>(slots + open, kMaxRanks));
  if (open == 0 && ranks > slots) {
    return Invalid(absl::StrFormat(
        "-np %d asks for more ranks than the hosts have slots (%d); lower -np or raise the slots",
        ranks, slots));
  }
  int shared = static_cast<int>(std::max<int64_t>(0, ranks - slots));  // for the open hosts
  std::vector<HostRanks> places;
  int next = 0;
  for (const Host& host : hosts) {
    int count = host.slots;
    if (count == 0) {
      count = (shared + open - 1) / open;
      shared -= count;
      --open;
    }
    count = std::min(count, ranks - next);
    if (count == 0) continue;
    places.push_back({host.name, static_cast<int>(places.size()), next, count});
    next += count;
  }
  return places;
}

int ServersOn(size_t hosts) { return static_cast<int>(std::min<size_t>(hosts, kMostServers)); }

Environment RankEnvironment(const RankContext& context, const HostRanks& place, int local) {
  Environment environment = context.session;
  const Environment own = {
      {"RANK", std::to_string(place.first_rank + local)},
      {"WORLD_SIZE", std::to_string(context.world)},
      {"LOCAL_RANK", std::to_string(local)},
      {"LOCAL_WORLD_SIZE", std::to_string(place.count)},
      {"GROUP_RANK", std::to_string(place.group)},
      {"MASTER_ADDR", context.master_address},
      {"MASTER_PORT", std::to_string(context.master_port)},
      {"RINGWOOD_HOST", place.host},
      {"RINGWOOD_RESTART", std::to_string(context.restart)},
  };
  for (const auto& [name, value] : own) environment[name] = value;
  auto set = [&](const char* name, const std::string& value) {
    if (!value.empty()) environment[name] = value;
  };
  set("RINGWOOD_COORDINATOR", context.coordinator);
  set("RINGWOOD_PORT_RANGE", WithoutHeldPort(context.port_range));
  set("RINGWOOD_TOKEN", context.token);
  set("RINGWOOD_RESUME", context.resume);
  set("RINGWOOD_JOB", context.job != 0 ? absl::StrFormat("%016x", context.job) : "");
  set("RINGWOOD_FREEZE_PLAN", context.freeze_plan);
  set("RINGWOOD_SAVE_PLAN", context.save_plan);
  set("RINGWOOD_PROFILE", context.profile);
  set("RINGWOOD_REPORT", context.report);
  const std::string rank = absl::StrFormat("rank%d", place.first_rank + local);
  const auto file_of = [&](const std::string& name, const char* extension) {
    return name.empty() ? "" : TimelineFileName(name, rank, context.restart, extension);
  };
  set("RINGWOOD_TIMELINE", file_of(context.timeline, "json"));
  set("RINGWOOD_FLIGHT_RECORD", file_of(context.flight_record, "flight"));
  set("RINGWOOD_CHECKPOINT_EVERY",
      context.checkpoint_every > 0 ? std::to_string(context.checkpoint_every) : "");
  set("RINGWOOD_JOIN_TIMEOUT",
      context.join_timeout_seconds > 0 ? absl::StrFormat("%g", context.join_timeout_seconds) : "");
  return environment;
}

}  // namespace ringwood
