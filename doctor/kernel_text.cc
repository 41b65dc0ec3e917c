#include "doctor/kernel_text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <sstream>

#include "absl/strings/str_format.h"
#include "base/net/socket_address.h"

namespace ringwood {
namespace {

constexpr uint32_t kUp = 1;              // RTF_UP
constexpr uint32_t kReject = 0x200;      // RTF_REJECT
constexpr uint32_t kLocal = 0x80000000;  // RTF_LOCAL

std::string Dotted(uint32_t little) {
  return absl::StrFormat("%d.%d.%d.%d", little & 255, little >> 8 & 255, little >> 16 & 255,
                         little >> 24);
}

std::string Coloned(const std::string& digits) {
  const auto address = SocketAddress::ParseDigits(digits);
  return address.ok() ? address->ip() : digits;
}

bool ReadNumber(const std::string& text, int* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= 0;
}

// "8" or "8-10" → both ends.
bool ReadRange(const std::string& text, int* first, int* last) {
  const size_t dash = text.find('-');
  if (!ReadNumber(text.substr(0, dash), first)) return false;
  *last = *first;
  return dash == std::string::npos || (ReadNumber(text.substr(dash + 1), last) && *last >= *first);
}

// Splits at commas outside of brackets.
std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> items(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  std::erase(items, "");
  return items;
}

}  // namespace

std::vector<RouteFacts> ParseRoutes(const std::string& text) {
  std::vector<RouteFacts> routes;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);  // names of the columns
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string name;
    uint32_t destination = 0, gateway = 0, flags = 0, skipped = 0, mask = 0;
    words >> name >> std::hex >> destination >> gateway >> flags >> skipped >> skipped >> skipped >>
        mask;
    if (!words || (flags & kUp) == 0) continue;
    RouteFacts route;
    route.interface_name = name;
    route.destination =
        mask == 0 ? "default" : absl::StrFormat("%s/%d", Dotted(destination), std::popcount(mask));
    if (gateway != 0) route.gateway = Dotted(gateway);
    routes.push_back(route);
  }
  return routes;
}

std::vector<RouteFacts> ParseRoutes6(const std::string& text) {
  std::vector<RouteFacts> routes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string destination, source, gateway, name;
    uint32_t prefix = 0, skipped = 0, flags = 0;
    words >> std::hex >> destination >> prefix >> source >> skipped >> gateway >> skipped >>
        skipped >> skipped >> flags >> name;
    if (!words || (flags & kUp) == 0 || (flags & (kLocal | kReject)) != 0) continue;
    const std::string first = destination.substr(0, 2);
    if (first == "fe" || first == "ff") continue;
    RouteFacts route;
    route.interface_name = name;
    route.destination =
        prefix == 0 ? "default" : absl::StrFormat("%s/%d", Coloned(destination), prefix);
    if (gateway.find_first_not_of('0') != std::string::npos) route.gateway = Coloned(gateway);
    routes.push_back(route);
  }
  return routes;
}

PortFacts OutgoingPorts(const PortRange& range, const std::string& outgoing,
                        const std::string& reserved) {
  PortFacts facts;
  if (range.any()) return facts;
  facts.range = ToString(range);
  facts.count = range.last - range.first + 1;
  std::istringstream(outgoing) >> facts.outgoing_first >> facts.outgoing_last;
  std::vector<std::pair<int, int>> kept;
  for (const std::string& item : SplitList(reserved.substr(0, reserved.find('\n')))) {
    int first = 0, last = 0;
    if (ReadRange(item, &first, &last)) kept.emplace_back(first, last);
  }
  for (int port = range.first; port <= range.last; ++port) {
    const bool given = port >= facts.outgoing_first && port <= facts.outgoing_last;
    const bool safe = std::any_of(kept.begin(), kept.end(), [port](const auto& ports) {
      return port >= ports.first && port <= ports.second;
    });
    if (given && !safe) ++facts.unreserved;
  }
  return facts;
}

StatusOr<std::vector<std::string>> ExpandNodeList(const std::string& text, size_t most) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    names.push_back(name);
    return names.size() <= most;
  };
  const Status wrong = Invalid(absl::StrFormat(
      "\"%s\" is no list of hosts such as n[1-4,7], or has more than %d", text, most));
  for (const std::string& item : SplitList(text)) {
    const size_t open = item.find('[');
    if (open == std::string::npos) {
      if (item.find(']') != std::string::npos || !add(item)) return wrong;
      continue;
    }
    const size_t close = item.find(']', open);
    if (close == std::string::npos || item.find_first_of("[]", close + 1) != std::string::npos)
      return wrong;
    for (const std::string& part : SplitList(item.substr(open + 1, close - open - 1))) {
      int first = 0, last = 0;
      if (!ReadRange(part, &first, &last)) return wrong;
      const int digits = static_cast<int>(std::min(part.find('-'), part.size()));
      for (int number = first; number <= last; ++number) {
        const std::string name = absl::StrFormat("%s%0*d%s", item.substr(0, open), digits, number,
                                                 item.substr(close + 1));
        if (!add(name)) return wrong;
      }
    }
  }
  if (names.empty()) return wrong;
  return names;
}

}  // namespace ringwood
