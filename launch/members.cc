#include "launch/members.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "launch/run_jobs.h"

namespace ringwood {

Members::Members(const RunOptions& options) : servers_(options.servers) {
  for (int server = 0; server < servers_; ++server) {
    hosts_.push_back(HostOfServer(options, server));
    names_.push_back(NameOfServer(options, server));
  }
  for (const HostRanks& place : options.places) {
    for (int local = 0; local < place.count; ++local) {
      hosts_.push_back(place.host);
      names_.push_back(absl::StrFormat("rank %d", place.first_rank + local));
    }
  }
}

int Members::OfRank(int rank) const {
  return rank >= 0 && rank < count() - servers_ ? servers_ + rank : -1;
}

std::string Members::Name(int member) const {
  return absl::StrFormat("%s (host %s)", names_[member], hosts_[member]);
}

// Rank 0 speaks as if it ran alone.
std::vector<Output::Voice> Members::Voices() const {
  std::vector<Output::Voice> voices;
  for (int member = 0; member < count(); ++member) {
    const std::string label =
        IsServer(member) ? names_[member] : absl::StrFormat("%d", RankOf(member));
    std::string file = names_[member];
    file.erase(std::remove(file.begin(), file.end(), ' '), file.end());
    const bool bare = !IsServer(member) && RankOf(member) == 0;
    voices.push_back({bare ? "" : "[" + label + "] ", file, names_[member]});
  }
  return voices;
}

}  // namespace ringwood
