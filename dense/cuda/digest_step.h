// The digest's kernel: what each thread adds to it. Generic in the Thread (base/cuda/threads.h).
#pragma once

#include "base/cuda/threads.h"
#include "dense/cuda/word_digest.h"

namespace ringwood::cuda {

constexpr uint32_t kDigestReads = 4;  // of 16 bytes, a thread under way

// The word at `place`: one load where the array allows it, else byte by byte.
RW_DEVICE inline uint32_t WordAt(const unsigned char* data, uint64_t bytes, uint64_t place,
                                 bool whole) {
  const uint64_t at = place * 4;
  if (whole && at + 4 <= bytes) return *reinterpret_cast<const uint32_t*>(data + at);
  uint32_t word = 0;
  for (unsigned b = 0; b < 4 && at + b < bytes; ++b) word |= uint32_t{data[at + b]} << (8 * b);
  return word;
}

// This thread's share of WordDigest; the sum over all threads is the digest.
template <class Thread>
RW_DEVICE uint64_t DigestShare(const Thread& thread, const unsigned char* data, uint64_t bytes) {
  const uint64_t words = (bytes + 3) / 4;
  const uint64_t fours = reinterpret_cast<uintptr_t>(data) % 16 == 0 ? bytes / 16 : 0;
  const bool whole = reinterpret_cast<uintptr_t>(data) % 4 == 0;
  const uint64_t stride = uint64_t{thread.blocks()} * kThreads;
  const uint64_t first = uint64_t{thread.block()} * kThreads + thread.id();
  uint64_t sum = 0;
  for (uint64_t i = first; i < fours; i += kDigestReads * stride) {
    Four read[kDigestReads];
    for (uint32_t r = 0; r < kDigestReads; ++r) {
      const uint64_t at = i + r * stride;
      if (at < fours) read[r] = Thread::Load4(reinterpret_cast<const float*>(data) + 4 * at);
    }
    for (uint32_t r = 0; r < kDigestReads; ++r) {
      const uint64_t at = i + r * stride;
      if (at >= fours) break;
      for (uint32_t c = 0; c < 4; ++c) sum += MixWord(Thread::Word(read[r].at[c]), 4 * at + c);
    }
  }
  for (uint64_t i = 4 * fours + first; i < words; i += stride) {
    sum += MixWord(WordAt(data, bytes, i, whole), i);
  }
  return sum;
}

}  // namespace ringwood::cuda
