#include "plan/model/cost_option.h"

#include <charconv>
#include <cmath>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/model/model_profile.h"

namespace ringwood {
namespace {

Status CheckTime(const std::string& name, double seconds) {
  if (seconds <= kMostSeconds) return OkStatus();
  return Invalid(absl::StrFormat("%s=%g: a time is at most %g s", name, seconds, kMostSeconds));
}

Status CheckRate(const std::string& name, double seconds_per_byte) {
  if (seconds_per_byte <= kMostSecondsPerByte) return OkStatus();
  return Invalid(absl::StrFormat("%s=%g: a byte takes at most %g s, which is 1 bit/s", name,
                                 seconds_per_byte, kMostSecondsPerByte));
}

}  // namespace

StatusOr<std::map<std::string, double>> ParseNumbers(const std::string& text) {
  std::map<std::string, double> numbers;
  std::istringstream in(text);
  std::string part;
  while (std::getline(in, part, ',')) {
    const size_t equals = part.find('=');
    double value = 0;
    if (equals != std::string::npos && equals > 0) {
      const char* end = part.data() + part.size();
      const auto [stop, error] = std::from_chars(part.data() + equals + 1, end, value);
      if (error == std::errc() && stop == end && std::isfinite(value) && value >= 0) {
        if (!numbers.emplace(part.substr(0, equals), value).second) {
          return Invalid(absl::StrCat("'", text, "': ", part.substr(0, equals), " comes twice"));
        }
        continue;
      }
    }
    return Invalid(absl::StrCat("'", part, "' in '", text, "' is not NAME=NUMBER (not negative)"));
  }
  return numbers;
}

StatusOr<Network> ParseNetwork(const std::string& text) {
  RW_ASSIGN_OR_RETURN(const auto numbers, ParseNumbers(text));
  Network network{0, 0, 0};
  for (const auto& [name, value] : numbers) {
    const bool rate = name == "beta" || name == "gamma";
    RW_RETURN_IF_ERROR(rate ? CheckRate(name, value) : CheckTime(name, value));
    if (name == "alpha") {
      network.alpha = value;
    } else if (name == "beta") {
      network.beta = value;
    } else if (name == "gamma") {
      network.gamma = value;
    } else if (name == "delay") {
      network.delay = value;
    } else {
      return Invalid(absl::StrCat("a network has alpha, beta, gamma and delay, not '", name, "'"));
    }
  }
  if (numbers.count("alpha") == 0 || numbers.count("beta") == 0) {
    return Invalid(absl::StrCat(
        "'", text, "': alpha=S,beta=S_PER_BYTE[,gamma=S_PER_BYTE][,delay=S] is needed"));
  }
  return network;
}

std::string NetworkText(const Network& network) {
  std::string text = absl::StrFormat("alpha=%.4g,beta=%.4g", network.alpha, network.beta);
  if (network.delay > 0) absl::StrAppendFormat(&text, ",delay=%.4g", network.delay);
  return text;
}

std::string PlanArguments(const Network& network, const Hosts& hosts) {
  std::string text =
      absl::StrFormat("--workers %d --network %s", RanksOf(hosts), NetworkText(network));
  const int sharing = RanksPerHost(hosts);
  if (sharing > 1) absl::StrAppendFormat(&text, " --ranks-per-host %d", sharing);
  return text;
}

int RanksPerHost(const Hosts& hosts) { return hosts.size() > 1 ? LargestHost(hosts) : 1; }

StatusOr<NamedCost> ParseCost(const std::string& text) {
  const size_t colon = text.find(':');
  NamedCost named;
  named.route = text.substr(0, colon == std::string::npos ? 0 : colon);
  if (named.route != "ring" && named.route != "tree") {
    return Invalid(absl::StrCat("'", text, "': ring:a=S,b=S_PER_BYTE or tree:… is needed"));
  }
  const std::string rest = text.substr(colon + 1);
  if (rest.compare(0, 6, "table=") == 0) {
    RW_ASSIGN_OR_RETURN(auto points, ReadCostTable(rest.substr(6)));
    RW_ASSIGN_OR_RETURN(named.cost, Cost::Table(Cost::Monotone(std::move(points))));
    return named;
  }
  RW_ASSIGN_OR_RETURN(const auto numbers, ParseNumbers(rest));
  if (numbers.size() != 2 || numbers.count("a") == 0 || numbers.count("b") == 0) {
    return Invalid(absl::StrCat("'", text, "': both a=S and b=S_PER_BYTE are needed"));
  }
  RW_RETURN_IF_ERROR(CheckTime("a", numbers.at("a")));
  RW_RETURN_IF_ERROR(CheckRate("b", numbers.at("b")));
  named.cost = Cost::Affine(numbers.at("a"), numbers.at("b"));
  return named;
}

}  // namespace ringwood
