#include "server/coordinator/patience/cut_off.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ringwood {
std::vector<size_t> CutOff(size_t workers, const std::vector<Complaint>& complaints) {
  std::set<std::pair<size_t, size_t>> pairs;  // both ways
  std::vector<size_t> accused(workers);
  for (const Complaint& complaint : complaints) {
    const auto [from, about] = complaint;
    if (about != from) ++accused[about];
    for (size_t other = 0; other < workers; ++other) {
      if (other == from || (about != from && about != other)) continue;
      pairs.insert({from, other});
      pairs.insert({other, from});
    }
  }
  std::set<size_t> apart;
  while (!pairs.empty()) {
    std::vector<size_t> degree(workers);
    for (const auto& [one, other] : pairs) ++degree[one];
    size_t worst = 0;
    for (size_t w = 1; w < workers; ++w) {
      if (std::pair(degree[w], accused[w]) >= std::pair(degree[worst], accused[worst])) worst = w;
    }
    apart.insert(worst);
    std::erase_if(
        pairs, [worst](const auto& pair) { return pair.first == worst || pair.second == worst; });
  }
  return {apart.begin(), apart.end()};
}

bool CutOffs::Hear(uint64_t from, uint64_t epoch, uint32_t node, TimePoint now) {
  std::erase_if(complaints_, [&](const Heard& heard) {
    return now - heard.at > kRememberedTimeouts * timeout_;
  });
  if (epoch != epoch_ || node >= members_.size()) return false;
  const uint64_t about = members_[node];
  std::erase_if(complaints_,
                [&](const Heard& heard) { return heard.from == from && heard.about == about; });
  complaints_.push_back({from, about, epoch, now});
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

CutOffs::Verdict CutOffs::Judge(const std::vector<uint64_t>& members, TimePoint now) {
  const auto place = [&](uint64_t member) {
    return static_cast<size_t>(std::find(members.begin(), members.end(), member) - members.begin());
  };
  std::vector<Complaint> complaints;
  for (const Heard& heard : complaints_) {
    const Complaint complaint{place(heard.from), place(heard.about)};
    if (std::max(complaint.from, complaint.about) < members.size()) complaints.push_back(complaint);
  }
  Verdict verdict{CutOff(members.size(), complaints), {}};
  for (size_t m = 0; m < members.size(); ++m) {
    if (!std::binary_search(verdict.apart.begin(), verdict.apart.end(), m)) {
      apart_.Free(members[m]);  // it was another one
      continue;
    }
    const Duration length = apart_.Sentence(members[m], now);
    if (length != Duration::zero()) verdict.sentences.push_back({m, length});
  }
  return verdict;
}

}  // namespace ringwood
