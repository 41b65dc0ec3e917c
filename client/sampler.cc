#include "client/sampler.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/random.h"
#include "client/permutation.h"

namespace ringwood {
namespace {

constexpr uint64_t kMaxSamples = uint64_t{1} << 48;
constexpr uint64_t kMaxBatch = uint64_t{1} << 32;  // times a world stays below 2^64
constexpr int kMaxAhead = 1024;                    // cuts that are kept
constexpr int kMaxMembers = 1 << 16;

uint64_t Count(std::span<const Positions> positions) {
  uint64_t count = 0;
  for (const Positions& each : positions) count += each.end - each.begin;
  return count;
}

// Elements [begin, end) of the positions, counted in their order.
std::vector<Positions> Slice(std::span<const Positions> positions, uint64_t begin, uint64_t end) {
  std::vector<Positions> slice;
  uint64_t at = 0;
  for (const Positions& each : positions) {
    const uint64_t next = at + (each.end - each.begin);
    const uint64_t from = std::max(begin, at);
    const uint64_t to = std::min(end, next);
    if (from < to) slice.push_back({each.begin + (from - at), each.begin + (to - at)});
    at = next;
  }
  return slice;
}

std::vector<int> RanksBelow(int world) {
  std::vector<int> ranks(static_cast<size_t>(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Status CheckRanks(std::span<const int> ranks, const char* what) {
  const bool ascending =
      std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end();
  if (ascending && ranks.size() <= kMaxMembers && (ranks.empty() || ranks.front() >= 0)) {
    return OkStatus();
  }
  return Invalid(
      absl::StrFormat("the %s of a step are ranks from 0 on, at most %d, each once and ascending",
                      what, kMaxMembers));
}

Status CheckSamplerOptions(const SamplerOptions& options) {
  if (options.samples < 1 || options.samples > kMaxSamples) {
    return Invalid(
        absl::StrFormat("a sampler of %d samples: 1 to 2^48 are possible", options.samples));
  }
  if (options.batch < 1 || options.batch > kMaxBatch) {
    return Invalid(absl::StrFormat("a batch of %d samples: 1 to 2^32 are possible", options.batch));
  }
  if (options.world < 1 || options.world > kMaxMembers) {
    return Invalid(absl::StrFormat("a sampler for %d ranks: 1 to %d are possible", options.world,
                                   kMaxMembers));
  }
  if (options.ahead < 0 || options.ahead > kMaxAhead) {
    return Invalid(
        absl::StrFormat("a loader %d steps ahead: 0 to %d are possible", options.ahead, kMaxAhead));
  }
  return OkStatus();
}

}  // namespace

StatusOr<Sampler> Sampler::Make(const SamplerOptions& options) {
  RW_RETURN_IF_ERROR(CheckSamplerOptions(options));
  Sampler sampler(options);
  sampler.members_ = RanksBelow(options.world);
  sampler.Fill();
  return sampler;
}

std::vector<Positions> Sampler::ShareOf(const Cut& cut, size_t member) const {
  const uint64_t count = Count(cut.positions);
  const uint64_t members = cut.members.size();
  return Slice(cut.positions, count * member / members, count * (member + 1) / members);
}

StatusOr<std::optional<std::vector<uint64_t>>> Sampler::Share(int rank, int ahead) const {
  if (rank < 0) {
    return Invalid(absl::StrFormat(
        "samples were asked for rank %d: ranks count from 0 (RANK of the process)", rank));
  }
  if (ahead < 0 || ahead > options_.ahead) {
    return Refused(absl::StrFormat(
        "samples were asked for %d steps ahead of the last commit, and the sampler was made for "
        "%d: "
        "make it with ahead = as many steps as the data loader prefetches (workers x prefetch "
        "factor), equal on all ranks",
        ahead, options_.ahead));
  }
  if (static_cast<size_t>(ahead) >= cuts_.size()) return std::nullopt;
  const Cut& cut = cuts_[static_cast<size_t>(ahead)];
  std::vector<uint64_t> samples;
  const auto member = std::lower_bound(cut.members.begin(), cut.members.end(), rank);
  if (member == cut.members.end() || *member != rank) return samples;
  const Permutation order(options_.samples, Random(options_.seed).Next() + pass_);
  for (const Positions& each : ShareOf(cut, static_cast<size_t>(member - cut.members.begin()))) {
    for (uint64_t position = each.begin; position < each.end; ++position) {
      samples.push_back(options_.in_order ? position : order(position));
    }
  }
  return samples;
}

Status Sampler::Committed(std::span<const int> members, std::span<const int> contributors) {
  RW_RETURN_IF_ERROR(CheckRanks(members, "members"));
  RW_RETURN_IF_ERROR(CheckRanks(contributors, "contributors"));
  if (members.empty() ||
      !std::includes(members.begin(), members.end(), contributors.begin(), contributors.end())) {
    return Invalid(
        "the contributors of a step are among its members, of which there is one at least");
  }
  const Cut cut = std::move(cuts_.front());
  cuts_.pop_front();
  for (size_t i = 0; i < cut.members.size(); ++i) {
    if (!std::binary_search(contributors.begin(), contributors.end(), cut.members[i])) {
      Return(ShareOf(cut, i));
    }
  }
  members_.assign(members.begin(), members.end());
  Fill();
  return OkStatus();
}

// In order and joined where they touch, so that any order of returning gives the same state.
void Sampler::Return(std::span<const Positions> positions) {
  returned_.insert(returned_.end(), positions.begin(), positions.end());
  std::sort(returned_.begin(), returned_.end(),
            [](const Positions& a, const Positions& b) { return a.begin < b.begin; });
  std::vector<Positions> joined;
  for (const Positions& each : returned_) {
    if (!joined.empty() && joined.back().end == each.begin) {
      joined.back().end = each.end;
    } else {
      joined.push_back(each);
    }
  }
  returned_ = std::move(joined);
}

Sampler::Cut Sampler::Take() {
  Cut cut;
  const uint64_t wanted = options_.batch;
  cut.positions = Slice(returned_, 0, wanted);
  returned_ = Slice(returned_, wanted, options_.samples);
  const uint64_t fresh = std::min(wanted - Count(cut.positions), options_.samples - cursor_);
  if (fresh > 0) cut.positions.push_back({cursor_, cursor_ + fresh});
  cursor_ += fresh;
  cut.members = members_;
  return cut;
}

void Sampler::Fill() {
  const auto room = [&] { return cuts_.size() <= static_cast<size_t>(options_.ahead); };
  const auto left = [&] { return !returned_.empty() || cursor_ < options_.samples; };
  while (room() && left()) cuts_.push_back(Take());
  if (!cuts_.empty()) return;
  ++pass_;
  cursor_ = 0;
  while (room() && left()) cuts_.push_back(Take());
}

// The cuts are laid back, those of the steps to come first.
void Sampler::Recut(int world) {
  for (const Cut& cut : cuts_) Return(cut.positions);
  cuts_.clear();
  members_ = RanksBelow(world);
  Fill();
}

Status Sampler::Restore(const std::string& state, int world) {
  if (world < 0 || world > kMaxMembers) {
    return Invalid(absl::StrFormat(
        "a sampler's state for %d ranks: 0 (as it is) to %d are possible", world, kMaxMembers));
  }
  Sampler other(options_);
  RW_RETURN_IF_ERROR(other.Read(state));
  if (world != 0 && other.members_ != RanksBelow(world)) other.Recut(world);
  *this = std::move(other);
  return OkStatus();
}

}  // namespace ringwood
