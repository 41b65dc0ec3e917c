#include "client/replan/wire_speed.h"

#include <algorithm>
#include <limits>

#include "base/buffer.h"
#include "base/clock.h"
#include "dense/arithmetic/rounding.h"
#include "dense/lattice/codes.h"

namespace ringwood {
namespace {

constexpr size_t kElements = size_t{1} << 20;
constexpr int kPasses = 3;

template <typename Pass>
double BestSecondsPerByte(const Pass& pass) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kPasses; ++i) {
    const TimePoint start = Now();
    pass();
    best = std::min(best, ToSeconds(Now() - start));
  }
  return best / static_cast<double>(kElements * sizeof(float));
}

struct Tensor {
  Tensor() : values(kElements), error(kElements), next_error(kElements) {
    for (size_t i = 0; i < kElements; ++i) {
      values[i] = static_cast<float>(i % 511) - 255;
      error[i] = 0;
    }
  }
  Buffer<float> values, error, next_error;
};

WireSpeed SpeedOfRounding() {
  Tensor tensor;
  Buffer<float> wire(kElements);
  uint16_t* const half = HalfBehind(wire.data(), kElements);
  return {BestSecondsPerByte([&] {
            RoundSum(tensor.values.data(), tensor.error.data(), half, tensor.next_error.data(),
                     kElements);
          }),
          BestSecondsPerByte([&] { WidenBehind(wire.data(), kElements); })};
}

WireSpeed SpeedOfCodes(int bits) {
  Tensor tensor;
  const int levels = LatticeLevels(bits);
  const size_t blocks = LatticeBlocks(kElements);
  Buffer<BlockReach> reach(blocks), next_reach(blocks);
  std::fill_n(reach.data(), blocks, BlockReach{0x4380});  // 256.0
  Buffer<std::byte> sum(PackedBytes(blocks, LatticeWidth(levels, 1)));
  Buffer<float> output(kElements);
  return {BestSecondsPerByte([&] {
            AddSource({tensor.values.data(), tensor.error.data(), tensor.next_error.data(),
                       reach.data(), kElements, levels},
                      nullptr, 0, sum.data());
          }),
          BestSecondsPerByte([&] {
            DecodeSum(sum.data(), 1,
                      {output.data(), reach.data(), next_reach.data(), kElements, levels});
          })};
}

}  // namespace

WireSpeed MeasureWireSpeed(std::string_view wire) {
  if (wire == "bf16") return SpeedOfRounding();
  if (const int bits = CodeBits(wire); bits != 0) return SpeedOfCodes(bits);
  return {};
}

}  // namespace ringwood
