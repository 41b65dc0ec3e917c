#include "sparse/codec.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "sparse/bits/varint.h"
#include "sparse/index_code.h"
#include "sparse/value_code.h"

namespace ringwood {
namespace {

// Layout, numbers as varints (varint.h): the first block that has entries and how many blocks
// follow (0: no entries at all); the number of entries of each of them; then all indices
// (index_code.h), then all values (value_code.h).
constexpr int kVarintBytes = 3;  // a group has at most 65,536 blocks, a block as many entries

// The first place from `at` on whose index is not below `end`. By doubling steps: a block has one
// entry in sparse messages and hundreds in others.
size_t EndOfBlock(std::span<const uint32_t> index, size_t at, uint64_t end) {
  size_t step = 1;
  while (at + step < index.size() && index[at + step] < end) step *= 2;
  const auto last = index.begin() + std::min(at + step, index.size());
  return std::lower_bound(index.begin() + at + step / 2, last, end) - index.begin();
}

}  // namespace

StatusOr<Codec> ParseCodec(const std::string& name) {
  constexpr std::array<std::pair<const char*, IndexCode>, 2> kIndexCodes = {
      {{"block16", IndexCode::kBlock16}, {"rice", IndexCode::kRice}}};
  constexpr std::array<std::pair<const char*, ValueCode>, 5> kValueCodes = {
      {{"fp32", ValueCode::kFloat32},
       {"bf16", ValueCode::kBFloat16},
       {"int8", ValueCode::kInt8},
       {"int4", ValueCode::kInt4},
       {"int2", ValueCode::kInt2}}};
  for (const auto& [index_name, index] : kIndexCodes) {
    for (const auto& [value_name, value] : kValueCodes) {
      if (name == absl::StrFormat("%s/%s", index_name, value_name)) return Codec{index, value};
    }
  }
  return Invalid(
      absl::StrFormat("unknown codec \"%s\": use block16 or rice, a slash, and fp32, bf16, "
                      "int8, int4 or int2, for example block16/fp32",
                      name));
}

double Codec::EntryBytes() const {
  constexpr uint64_t kMany = 65536;  // so that scales are shared out
  // What sums of four to eight workers take more than one worker's values.
  constexpr double kMoreOfSums = 0.4;
  const double index_bytes = index == IndexCode::kBlock16 ? 2.1 : 1.2;  // rice: 1 % to 0.1 %
  const double up = static_cast<double>(MaxValueBytes(value, kMany)) / kMany;
  const double down = Exact().value == ValueCode::kSums ? up + kMoreOfSums : sizeof(float);
  return index_bytes + (up + down) / 2;
}

uint64_t MaxWireBytes(const Codec& codec, uint64_t elements, uint64_t k) {
  const uint64_t blocks = BlocksOf(elements), count = std::min(k, elements);
  return (2 + blocks) * kVarintBytes + MaxIndexBytes(codec.index, blocks, count) +
         MaxValueBytes(codec.value, count);
}

void RoundValues(const Codec& codec, std::span<float> values) {
  if (codec == codec.Exact()) return;  // rounds nothing
  std::vector<std::byte> wire(MaxValueBytes(codec.value, values.size()));
  EncodeValues(codec.value, values, wire.data());
  RW_CHECK(DecodeValues(codec.value, wire, values));
}

uint64_t Encode(const Codec& codec, const IndexRange& range, const EntriesView& entries,
                std::span<std::byte> wire) {
  const size_t count = entries.size();
  RW_CHECK(wire.size() >= MaxWireBytes(codec, range.elements(), count));
  RW_CHECK(count == 0 ||
           (entries.index.front() >= range.begin && entries.index.back() < range.end));
  std::byte* to = wire.data();
  const uint64_t first = count == 0 ? 0 : (entries.index.front() - range.begin) / kBlockElements;
  const uint64_t last = count == 0 ? 0 : (entries.index.back() - range.begin) / kBlockElements + 1;
  std::vector<uint32_t> in_block(last - first);
  to = PutVarint(static_cast<uint32_t>(first), to);
  to = PutVarint(static_cast<uint32_t>(in_block.size()), to);
  size_t at = 0;
  for (size_t b = 0; b < in_block.size(); ++b) {
    const size_t next =
        EndOfBlock(entries.index, at, range.begin + (first + b + 1) * kBlockElements);
    in_block[b] = static_cast<uint32_t>(next - at);
    to = PutVarint(in_block[b], to);
    at = next;
  }
  to = EncodeIndices(codec.index, in_block, entries.index, to);
  return static_cast<uint64_t>(EncodeValues(codec.value, entries.value, to) - wire.data());
}

namespace {

// The head of a message: the entries of each block from the first on.
struct Head {
  uint64_t first = 0;
  std::vector<uint32_t> in_block;
  uint64_t count = 0;
};

StatusOr<Head> ReadHead(const IndexRange& range, uint64_t max_entries,
                        std::span<const std::byte>* wire) {
  const uint64_t blocks = BlocksOf(range.elements());
  uint32_t first = 0, number = 0;
  if (!GetVarint(kVarintBytes, wire, &first) || !GetVarint(kVarintBytes, wire, &number)) {
    return BadEntries("the head ends early", 0);
  }
  if (uint64_t{first} + number > blocks) return BadEntries("the message ends outside", first);
  Head head{first, std::vector<uint32_t>(number)};
  for (uint32_t b = 0; b < number; ++b) {
    if (!GetVarint(kVarintBytes, wire, &head.in_block[b])) {
      return BadEntries("the count ends early", first + b);
    }
    head.count += head.in_block[b];
    if (head.count > max_entries) return BadEntries("more entries than the plan allows", first + b);
  }
  return head;
}

}  // namespace

Status Decode(const Codec& codec, const IndexRange& range, uint64_t max_entries,
              std::span<const std::byte> wire, Entries* entries) {
  RW_ASSIGN_OR_RETURN(const Head head, ReadHead(range, max_entries, &wire));
  const size_t old = entries->size();
  entries->index.resize(old + head.count);
  const std::span<uint32_t> index = std::span(entries->index).subspan(old);
  const IndexRange part{range.begin + head.first * kBlockElements, range.end};
  const StatusOr<uint64_t> used = DecodeIndices(codec.index, part, head.in_block, wire, index);
  Status status = used.status();
  entries->value.resize(old + head.count);
  if (status.ok() &&
      !DecodeValues(codec.value, wire.subspan(*used), std::span(entries->value).subspan(old))) {
    status = BadEntries("length and count differ", head.first);
  }
  if (status.ok() && old > 0 && !index.empty() && index.front() <= entries->index[old - 1]) {
    status = BadEntries("an index is not above those before", head.first);
  }
  if (!status.ok()) {
    entries->index.resize(old);
    entries->value.resize(old);
  }
  return status;
}

}  // namespace ringwood
