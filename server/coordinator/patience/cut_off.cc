#include "server/coordinator/patience/cut_off.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace ringwood {
namespace {

// Parties that do not reach each other.
class Quarrels {
 public:
  // `sizes`: the members of each party.
  explicit Quarrels(std::vector<size_t> sizes)
      : sizes_(std::move(sizes)), accused_(sizes_.size()) {}

  void Add(size_t one, size_t other) {
    pairs_.insert({one, other});
    pairs_.insert({other, one});
  }
  void Accuse(size_t party) { ++accused_[party]; }

  // Parties without which no pair is left.
  std::set<size_t> Settle() {
    std::set<size_t> apart;
    while (!pairs_.empty()) {
      const size_t worst = Worst();
      apart.insert(worst);
      std::erase_if(pairs_, [worst](const auto& pair) {
        return pair.first == worst || pair.second == worst;
      });
    }
    return apart;
  }

 private:
  // Of equals the last.
  size_t Worst() const {
    std::vector<size_t> degree(sizes_.size());
    for (const auto& [one, other] : pairs_) ++degree[one];
    const auto weight = [&](size_t party) {
      return std::tuple(degree[party], accused_[party], -static_cast<int64_t>(sizes_[party]));
    };
    size_t worst = 0;
    for (size_t party = 1; party < sizes_.size(); ++party) {
      if (weight(party) >= weight(worst)) worst = party;
    }
    return worst;
  }

  const std::vector<size_t> sizes_;
  std::vector<size_t> accused_;                // how many complain of it
  std::set<std::pair<size_t, size_t>> pairs_;  // both ways
};

// The number of each member's host, in the order in which they come.
std::vector<size_t> HostNumbers(const std::vector<std::string>& hosts) {
  std::map<std::string, size_t> known;
  std::vector<size_t> numbers;
  size_t next = 0;
  for (const std::string& host : hosts) {
    const auto found = host.empty() ? known.end() : known.find(host);
    numbers.push_back(found != known.end() ? found->second : next++);
    if (!host.empty()) known.try_emplace(host, numbers.back());
  }
  return numbers;
}

}  // namespace

std::vector<size_t> CutOff(const std::vector<std::string>& hosts,
                           const std::vector<Complaint>& complaints) {
  const std::vector<size_t> host_of = HostNumbers(hosts);
  std::vector<size_t> sizes;
  for (const size_t host : host_of) {
    sizes.resize(std::max(sizes.size(), host + 1));
    ++sizes[host];
  }
  const size_t count = sizes.size();
  const auto of_hosts = [&](const Complaint& complaint) {
    const bool abroad = host_of[complaint.from] != host_of[complaint.about];
    return complaint.about == complaint.from ? count > 1 : complaint.host && abroad;
  };

  Quarrels between_hosts(std::move(sizes));
  for (const Complaint& complaint : complaints) {
    if (!of_hosts(complaint)) continue;
    const size_t from = host_of[complaint.from], about = host_of[complaint.about];
    // Of two hosts each complains of the other: that tells nothing.
    if (about != from && count > 2) between_hosts.Accuse(about);
    for (size_t other = 0; other < count; ++other) {
      if (other != from && (about == from || about == other)) between_hosts.Add(from, other);
    }
  }
  const std::set<size_t> cut = between_hosts.Settle();

  Quarrels between_members(std::vector<size_t>(hosts.size(), 1));
  for (const Complaint& complaint : complaints) {
    const auto [from, about, host] = complaint;
    if (about != from) between_members.Accuse(about);
    if (of_hosts(complaint) || cut.count(host_of[from]) != 0) continue;
    for (size_t other = 0; other < hosts.size(); ++other) {
      const bool named = other != from && (about == from || about == other);
      if (named && cut.count(host_of[other]) == 0) between_members.Add(from, other);
    }
  }
  const std::set<size_t> apart = between_members.Settle();

  std::vector<size_t> all;
  for (size_t member = 0; member < hosts.size(); ++member) {
    if (apart.count(member) != 0 || cut.count(host_of[member]) != 0) all.push_back(member);
  }
  return all;
}

bool CutOffs::Hear(uint64_t from, uint64_t epoch, uint32_t node, bool host, TimePoint now) {
  std::erase_if(complaints_, [&](const Heard& heard) {
    return now - heard.at > kRememberedTimeouts * timeout_;
  });
  if (epoch != epoch_ || node >= members_.size()) return false;
  const uint64_t about = members_[node];
  std::erase_if(complaints_,
                [&](const Heard& heard) { return heard.from == from && heard.about == about; });
  complaints_.push_back({from, about, epoch, host, now});
  return true;
}

bool CutOffs::IsMember(uint64_t member) const {
  return std::find(members_.begin(), members_.end(), member) != members_.end();
}

void CutOffs::Worked() {
  std::erase_if(complaints_, [&](const Heard& heard) {
    return heard.epoch < epoch_ && IsMember(heard.from) && IsMember(heard.about);
  });
}

CutOffs::Verdict CutOffs::Judge(const std::vector<Member>& members, TimePoint now) {
  std::map<uint64_t, size_t> places;
  std::vector<std::string> hosts;
  for (const Member& member : members) {
    places.try_emplace(member.incarnation, hosts.size());
    hosts.push_back(member.host);
  }
  std::vector<Complaint> complaints;
  for (const Heard& heard : complaints_) {
    const auto from = places.find(heard.from), about = places.find(heard.about);
    if (from == places.end() || about == places.end()) continue;
    complaints.push_back({from->second, about->second, heard.host});
  }
  Verdict verdict{CutOff(hosts, complaints), {}};
  for (size_t m = 0; m < members.size(); ++m) {
    if (!std::binary_search(verdict.apart.begin(), verdict.apart.end(), m)) {
      apart_.Free(members[m].incarnation);  // it was another one
      continue;
    }
    const Duration length = apart_.Sentence(members[m].incarnation, now);
    if (length != Duration::zero()) verdict.sentences.push_back({m, length});
  }
  return verdict;
}

}  // namespace ringwood
