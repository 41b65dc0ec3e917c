#include "sparse/codec.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "sparse/index_code.h"
#include "sparse/value_code.h"
#include "sparse/varint.h"

namespace ringwood {
namespace {

// Layout: the number of entries of each block as a varint (7 bits a byte, low first), then all
// indices (index_code.h), then all values (value_code.h).
constexpr int kVarintBytes = 3;  // a block has at most 65,536 entries

Status Bad(const char* what, uint64_t block) {
  return Corrupt(absl::StrFormat("entries of a peer cannot be read: %s in block %d", what, block));
}

}  // namespace

StatusOr<Codec> ParseCodec(const std::string& name) {
  constexpr std::array<std::pair<const char*, IndexCode>, 2> kIndexCodes = {
      {{"block16", IndexCode::kBlock16}, {"rice", IndexCode::kRice}}};
  constexpr std::array<std::pair<const char*, ValueCode>, 4> kValueCodes = {
      {{"fp32", ValueCode::kFloat32},
       {"bf16", ValueCode::kBFloat16},
       {"int8", ValueCode::kInt8},
       {"int4", ValueCode::kInt4}}};
  for (const auto& [index_name, index] : kIndexCodes) {
    for (const auto& [value_name, value] : kValueCodes) {
      if (name == absl::StrFormat("%s/%s", index_name, value_name)) return Codec{index, value};
    }
  }
  return Invalid(
      absl::StrFormat("unknown codec \"%s\": use block16 or rice, a slash, and fp32, bf16, "
                      "int8 or int4, for example block16/fp32",
                      name));
}

double Codec::EntryBytes() const {
  constexpr uint64_t kMany = 65536;  // so that scales are shared out
  const double index_bytes = index == IndexCode::kBlock16 ? 2.1 : 1.2;  // rice: 1 % to 0.1 %
  const double value_bytes = static_cast<double>(ValueBytes(value, kMany)) / kMany;
  return index_bytes + (value_bytes + sizeof(float)) / 2;
}

uint64_t MaxWireBytes(const Codec& codec, uint64_t elements, uint64_t k) {
  const uint64_t blocks = BlocksOf(elements), count = std::min(k, elements);
  return blocks * kVarintBytes + MaxIndexBytes(codec.index, blocks, count) +
         ValueBytes(codec.value, count);
}

void RoundValues(const Codec& codec, std::span<float> values) {
  if (codec.value == ValueCode::kFloat32) return;
  std::vector<std::byte> wire(ValueBytes(codec.value, values.size()));
  EncodeValues(codec.value, values, wire.data());
  DecodeValues(codec.value, wire.data(), values);
}

void Encode(const Codec& codec, uint64_t elements, const Entries& entries,
            std::vector<std::byte>* out) {
  const size_t count = entries.size();
  out->clear();
  out->reserve(MaxWireBytes(codec, elements, count));
  std::vector<uint32_t> in_block(BlocksOf(elements));
  size_t at = 0;
  for (uint64_t block = 0; block < in_block.size(); ++block) {
    const uint64_t end = (block + 1) * kBlockElements;
    const size_t begin = at;
    while (at < count && entries.index[at] < end) ++at;
    in_block[block] = static_cast<uint32_t>(at - begin);
    PutVarint(in_block[block], out);
  }
  RW_CHECK(at == count);
  EncodeIndices(codec.index, in_block, entries.index, out);
  const size_t head = out->size();
  out->resize(head + ValueBytes(codec.value, count));
  EncodeValues(codec.value, entries.value, out->data() + head);
}

Status Decode(const Codec& codec, uint64_t elements, uint64_t max_entries,
              std::span<const std::byte> wire, Entries* entries) {
  entries->clear();
  std::vector<uint32_t> in_block(BlocksOf(elements));
  uint64_t count = 0;
  for (uint64_t block = 0; block < in_block.size(); ++block) {
    if (!GetVarint(kVarintBytes, &wire, &in_block[block]))
      return Bad("the count ends early", block);
    count += in_block[block];
    if (count > max_entries) return Bad("more entries than the plan allows", block);
  }
  std::vector<uint32_t> index(count);
  RW_ASSIGN_OR_RETURN(const uint64_t used,
                      DecodeIndices(codec.index, elements, in_block, wire, index));
  if (wire.size() - used != ValueBytes(codec.value, count)) {
    return Bad("length and count differ", in_block.size());
  }
  entries->index = std::move(index);
  entries->value.resize(count);
  DecodeValues(codec.value, wire.data() + used, entries->value);
  return OkStatus();
}

}  // namespace ringwood
