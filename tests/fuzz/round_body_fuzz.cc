// What a worker makes of a logged round: gradients that it wrote are averages of all tensors, or
// none was touched.
//
// sources: client/updates/round_body.cc client/exchange/scale.cc client/exchange/gradient.cc
// sources: updates.pb.cc
// sources: sparse/codec.cc sparse/index_code.cc sparse/value_code.cc sparse/bits/sum_code.cc
// sources: base/status.cc base/check.cc
// libraries: protobuf libhwy
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "client/updates/round_body.h"

namespace ringwood {
namespace {

constexpr size_t kTensors = 3;
constexpr size_t kElements[kTensors] = {1, 30, 70000};  // the last one has two blocks of indices
constexpr float kBefore = -77;

// `narrow`: the second tensor is bfloat16, in the first half of its memory.
void ReadAs(bool narrow, std::span<const std::byte> body) {
  static std::vector<std::vector<float>> gradients(kTensors);
  std::vector<Tensor> tensors(kTensors);
  TensorsById by_id;
  for (size_t id = 0; id < kTensors; ++id) {
    gradients[id].assign(kElements[id], kBefore);
    tensors[id].spec.name = "w";
    tensors[id].spec.elements = kElements[id];
    tensors[id].data = gradients[id].data();
    if (narrow && id == 1) tensors[id].type = DataType::kBFloat16;
    by_id.push_back(&tensors[id]);
  }
  const StatusOr<RoundFacts> round = ReadRound(1, body, by_id);
  if (round.ok() && !round->skipped) return;
  for (const auto& gradient : gradients) {
    RW_CHECK(std::all_of(gradient.begin(), gradient.end(), [](float x) { return x == kBefore; }));
  }
}

void Read(std::span<const std::byte> body) {
  for (const bool narrow : {false, true}) ReadAs(narrow, body);
}

// The input as the list of a body whose lengths fit: it would be found by chance only rarely.
void ReadFitted(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return;
  const size_t tail = std::min<size_t>(bytes.size(), static_cast<uint8_t>(bytes[0]) + 1);
  std::vector<std::byte> body(bytes.begin(), bytes.end());
  const uint64_t size = tail;
  const auto* const end = reinterpret_cast<const std::byte*>(&size);
  body.insert(body.end(), end, end + sizeof size);
  Read(body);
}

// A body that a writer made, with the input's numbers in it, is read.
void ReadWritten(std::span<const std::byte> bytes) {
  RoundBody body;
  Buffer<std::byte> memory;
  std::vector<std::byte> whole;
  const auto add = [&](std::span<const std::byte> part) {
    whole.insert(whole.end(), part.begin(), part.end());
  };
  for (size_t id = 0; id < kTensors; ++id) {
    Entries entries;
    for (size_t i = 0; i < std::min(bytes.size(), kElements[id]); ++i) {
      entries.push_back(static_cast<uint32_t>(i),
                        std::bit_cast<float>(static_cast<uint32_t>(bytes[i]) << 23));
    }
    TensorSum sum;
    sum.sparse = entries;
    add(body.Add(id, kElements[id], sum, kElements[id], &memory));
  }
  const std::string tail = body.Tail({1, bytes.empty(), 2, {0, 1}, {1}, "note"});
  add(std::as_bytes(std::span(tail)));
  std::vector<std::vector<float>> gradients(kTensors);
  std::vector<Tensor> tensors(kTensors);
  TensorsById by_id;
  for (size_t id = 0; id < kTensors; ++id) {
    gradients[id].assign(kElements[id], kBefore);
    tensors[id].spec.elements = kElements[id];
    tensors[id].data = gradients[id].data();
    by_id.push_back(&tensors[id]);
  }
  RW_CHECK(ReadRound(1, whole, by_id).ok());
}

}  // namespace
}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  ringwood::Read(bytes);
  ringwood::ReadFitted(bytes);
  ringwood::ReadWritten(bytes);
  return 0;
}
