#include "sparse/global_cut.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "sparse/bits/varint.h"
#include "sparse/cut.h"
#include "sparse/key.h"

namespace ringwood {
namespace {

// Where the bits of each level begin, and where those that are known already do.
constexpr std::array<int, GlobalCut::kLevels> kShift = {20, 10, 0};
constexpr std::array<int, GlobalCut::kLevels> kKnown = {31, 20, 10};

constexpr int kIndexVarintBytes = 5;  // 32 bits

uint32_t BinOf(uint32_t key, int level) {
  return key >> kShift[level] & ((1u << (kKnown[level] - kShift[level])) - 1);
}

}  // namespace

std::vector<std::byte> GlobalCut::Pack(const std::vector<uint32_t>& histogram) {
  std::vector<std::byte> wire;
  uint32_t empty = 0;
  for (uint32_t count : histogram) {
    if (count == 0) {
      ++empty;
      continue;
    }
    PutVarint(empty, &wire);
    PutVarint(count, &wire);
    empty = 0;
  }
  return wire;
}

StatusOr<std::vector<uint32_t>> GlobalCut::Unpack(std::span<const std::byte> wire) {
  std::vector<uint32_t> histogram(kBins, 0);
  for (uint64_t bin = 0; !wire.empty(); ++bin) {
    uint32_t empty = 0, count = 0;
    if (!GetVarint(kIndexVarintBytes, &wire, &empty) ||
        !GetVarint(kIndexVarintBytes, &wire, &count) || bin + empty >= kBins) {
      return Corrupt("the histogram of a shard cannot be read");
    }
    bin += empty;
    histogram[bin] = count;
  }
  return histogram;
}

GlobalCut::GlobalCut(uint64_t keep, int shard, int shards)
    : keep_(keep), shard_(shard), shards_(shards) {
  RW_CHECK(keep >= 1 && shard >= 0 && shard < shards);
}

std::vector<uint32_t> GlobalCut::Count(std::span<const float> values) const {
  RW_CHECK(level_ < kLevels);
  std::vector<uint32_t> histogram(kBins, 0);
  for (float value : values) {
    const uint32_t key = KeyOf(value);
    if (key >> kKnown[level_] == key_ >> kKnown[level_]) ++histogram[BinOf(key, level_)];
  }
  return histogram;
}

bool GlobalCut::Take(const std::vector<std::vector<uint32_t>>& histograms) {
  RW_CHECK(level_ < kLevels && histograms.size() == static_cast<size_t>(shards_));
  std::vector<uint64_t> sum(kBins, 0);
  uint64_t total = 0;
  for (const std::vector<uint32_t>& histogram : histograms) {
    RW_CHECK(histogram.size() == kBins);
    for (uint32_t bin = 0; bin < kBins; ++bin) sum[bin] += histogram[bin];
  }
  for (uint64_t count : sum) total += count;
  if (level_ == 0 && total <= keep_) return all_ = true;
  if (larger_ + total < keep_) return all_ = true;  // only if a peer's counts are not true
  uint32_t bin = kBins - 1;
  while (larger_ + sum[bin] < keep_) larger_ += sum[bin--];
  key_ |= bin << kShift[level_];
  if (++level_ < kLevels) return false;
  uint64_t open = keep_ - larger_;
  for (int s = 0; s <= shard_; ++s) {
    ties_ = std::min<uint64_t>(open, histograms[s][bin]);
    open -= ties_;
  }
  return true;
}

void GlobalCut::Apply(Entries* entries) const {
  if (all_) return;
  const uint64_t kept =
      KeepAbove(key_, ties_, *entries, {entries->index.data(), entries->value.data()});
  entries->index.resize(kept);
  entries->value.resize(kept);
}

}  // namespace ringwood
