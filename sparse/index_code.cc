#include "sparse/index_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"
#include "sparse/bits/stream.h"

namespace ringwood {
namespace {

constexpr int kMaxParameter = 16;  // gaps are below 65,536

// The better of the two parameters near log2(mean gap); the larger one keeps MaxIndexBytes.
int ParameterFor(std::span<const uint32_t> index) {
  const int high = std::bit_width(kBlockElements / index.size()) - 1;
  if (high == 0) return 0;
  uint64_t high_bits = 0, low_bits = 0;
  int64_t last = -1;
  for (uint32_t i : index) {
    const int64_t local = i % kBlockElements;
    const uint64_t gap = static_cast<uint64_t>(local - last - 1);
    high_bits += (gap >> high) + 1;
    low_bits += gap >> (high - 1);
    last = local;
  }
  return low_bits < high_bits ? high - 1 : high;
}

std::byte* EncodeRice(std::span<const uint32_t> in_block, std::span<const uint32_t> index,
                      std::byte* to) {
  std::vector<uint8_t> parameters;
  size_t at = 0;
  for (uint32_t count : in_block) {
    if (count == 0) continue;
    parameters.push_back(static_cast<uint8_t>(ParameterFor(index.subspan(at, count))));
    *to++ = static_cast<std::byte>(parameters.back());
    at += count;
  }
  BitWriter writer(to);
  at = 0;
  size_t used = 0;
  for (uint32_t count : in_block) {
    if (count == 0) continue;
    const int parameter = parameters[used++];
    int64_t last = -1;
    for (uint32_t i = 0; i < count; ++i, ++at) {
      const int64_t local = index[at] % kBlockElements;
      const uint32_t gap = static_cast<uint32_t>(local - last - 1);
      writer.PutOnes(gap >> parameter);
      writer.Put((gap & ((1u << parameter) - 1)) << 1, parameter + 1);
      last = local;
    }
  }
  return writer.Finish();
}

// One gap; false when it is longer than a block.
bool GetGap(BitReader* reader, int parameter, uint64_t* gap) {
  constexpr int kWindow = 56;  // bits of a Peek that are certainly there
  uint64_t high = 0;
  int ones = std::countr_one(reader->Peek());
  for (; ones >= kWindow; ones = std::countr_one(reader->Peek())) {
    high += kWindow;
    reader->Skip(kWindow);
    if (high > kBlockElements) return false;
  }
  reader->Skip(ones + 1);
  const uint64_t low = reader->Peek() & ((1u << parameter) - 1);
  reader->Skip(parameter);
  *gap = (high + ones) << parameter | low;
  return *gap < kBlockElements;
}

StatusOr<uint64_t> DecodeRice(const IndexRange& range, std::span<const uint32_t> in_block,
                              std::span<const std::byte> wire, std::span<uint32_t> index) {
  const size_t heads = in_block.size() - std::count(in_block.begin(), in_block.end(), 0u);
  if (wire.size() < heads) return BadEntries("the parameters end early", in_block.size());
  BitReader reader(wire.subspan(heads));
  size_t at = 0, used = 0;
  for (uint64_t block = 0; block < in_block.size(); ++block) {
    if (in_block[block] == 0) continue;
    const int parameter = static_cast<int>(wire[used++]);
    if (parameter > kMaxParameter) return BadEntries("a parameter is too large", block);
    const uint64_t base = range.begin + block * kBlockElements;
    const uint64_t limit = std::min(kBlockElements, range.end - base);
    uint64_t next = 0;  // the smallest local index that may follow
    for (uint32_t i = 0; i < in_block[block]; ++i, ++at) {
      uint64_t gap;
      if (!GetGap(&reader, parameter, &gap) || next + gap >= limit) {
        return BadEntries("an index is outside", block);
      }
      index[at] = static_cast<uint32_t>(base + next + gap);
      next += gap + 1;
    }
    if (!reader.Ok()) return BadEntries("the indices end early", block);
  }
  return heads + reader.bytes();
}

uint16_t LocalAt(const std::byte* wire, size_t at) {
  uint16_t local;
  std::memcpy(&local, wire + 2 * at, 2);
  return local;
}

StatusOr<uint64_t> DecodeBlock16(const IndexRange& range, std::span<const uint32_t> in_block,
                                 std::span<const std::byte> wire, std::span<uint32_t> index) {
  if (wire.size() < 2 * index.size()) return BadEntries("the indices end early", in_block.size());
  const std::byte* from = wire.data();
  uint32_t* to = index.data();
  for (uint64_t block = 0; block < in_block.size(); ++block) {
    const size_t count = in_block[block];
    if (count == 0) continue;
    const uint64_t base = range.begin + block * kBlockElements;
    // Increasing, so that only the last one can be outside. No way out of the loops: the compiler
    // makes vectors of them.
    unsigned disorder = 0;
    for (size_t i = 1; i < count; ++i) disorder |= LocalAt(from, i) <= LocalAt(from, i - 1);
    if (disorder != 0 || base + LocalAt(from, count - 1) >= range.end) {
      return BadEntries("an index is out of order", block);
    }
    for (size_t i = 0; i < count; ++i) to[i] = static_cast<uint32_t>(base) + LocalAt(from, i);
    from += 2 * count;
    to += count;
  }
  return 2 * index.size();
}

}  // namespace

Status BadEntries(const char* what, uint64_t block) {
  return Corrupt(absl::StrFormat("entries of a peer cannot be read: %s in block %d", what, block));
}

uint64_t MaxIndexBytes(IndexCode code, uint64_t blocks, uint64_t count) {
  if (code == IndexCode::kBlock16) return 2 * count;
  if (count == 0) return 0;
  // A block of c entries with p = floor(log2(65,536 / c)) takes at most c(1 + p) + 65,536 / 2^p
  // bits, which is below c(3 + log2(65,536 / c)). That is concave, so even spreading is the worst:
  // n(3 + log2(N / n)) bits for n entries of N elements. It rises by more than a bit an entry up to
  // n = N, so that a message has room where a longer one has; hence no floor of the mean gap here.
  const double entries = static_cast<double>(count);
  const double gap = std::max(1.0, static_cast<double>(blocks * kBlockElements) / entries);
  const double bits = entries * (3 + std::log2(gap));
  return std::min(blocks, count) + static_cast<uint64_t>(std::ceil(bits / 8)) + 1;
}

std::byte* EncodeIndices(IndexCode code, std::span<const uint32_t> in_block,
                         std::span<const uint32_t> index, std::byte* to) {
  if (code == IndexCode::kRice) return EncodeRice(in_block, index, to);
  for (size_t i = 0; i < index.size(); ++i) {
    const uint16_t local = static_cast<uint16_t>(index[i]);
    std::memcpy(to + 2 * i, &local, 2);
  }
  return to + 2 * index.size();
}

StatusOr<uint64_t> DecodeIndices(IndexCode code, const IndexRange& range,
                                 std::span<const uint32_t> in_block,
                                 std::span<const std::byte> wire, std::span<uint32_t> index) {
  return code == IndexCode::kRice ? DecodeRice(range, in_block, wire, index)
                                  : DecodeBlock16(range, in_block, wire, index);
}

}  // namespace ringwood
