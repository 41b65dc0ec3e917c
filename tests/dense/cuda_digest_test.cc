// The digest's kernel in the emulation, against WordDigest: all lengths, alignments and grids.
#include <gtest/gtest.h>

#define RW_DEVICE

#include "base/buffer.h"
#include "base/random.h"
#include "dense/cuda/digest_step.h"
#include "tests/base/emulated_grid.h"

namespace ringwood {
namespace {

TEST(CudaDigest, IsThatOfPlainLoopsForAllLengthsAndAlignments) {
  constexpr uint64_t kMost = 200'003;
  Random random(1);
  Buffer<unsigned char> memory(kMost + 64);  // aligned to 16 bytes at least
  for (uint64_t i = 0; i < kMost + 64; ++i) {
    memory.data()[i] = static_cast<unsigned char>(random.Below(256));
  }
  std::vector<uint64_t> lengths = {4096, 4096 * 4 + 1, 65'536, kMost};
  for (uint64_t bytes = 0; bytes < 70; ++bytes) lengths.push_back(bytes);
  for (const uint64_t bytes : lengths) {
    for (const size_t shift : {0, 1, 2, 4, 8, 15, 16}) {
      const unsigned char* const data = memory.data() + shift;
      for (const uint32_t blocks : {1u, 3u}) {
        uint64_t digest = 0;  // the emulation's threads run one after the other
        EmulatedGrid::RunEach(blocks, [&](EmulatedThread& thread) {
          digest += cuda::DigestShare(thread, data, bytes);
        });
        ASSERT_EQ(digest, WordDigest(data, bytes)) << bytes << " bytes behind " << shift;
      }
    }
  }
}

}  // namespace
}  // namespace ringwood
