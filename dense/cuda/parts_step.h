// The passes between the trainer's tensors and the flat memory of a dense group, over all tensors
// of the group in one launch: a group of 60 tensors costs one start of a kernel, not 60.
//
//     parts   │ a ──── │ b ─ │ c ─────────── │      one after the other, `begin` rising
//     tiles   │ 0      │ 1      │ 2      │ 3 │      of kPartTile elements; a block takes every n-th
//
// Generic in the Thread (base/cuda/threads.h) and in the Element of parts and flat memory
// (dense/cuda/elements.h). Products, sums and quotients are rounded one by one: compile without
// contraction.
#pragma once

#include "base/cuda/threads.h"
#include "dense/cuda/elements.h"
#include "dense/cuda/parts.h"

namespace ringwood::cuda {

constexpr uint32_t kPartVectors = 4;                         // of 4 elements, a thread and tile
constexpr uint32_t kPartTile = kThreads * kPartVectors * 4;  // 4096

// flat = weight * part (+ owed), and the largest magnitude; with weight 0 the product is 0 and the
// part unread.
template <class Element>
struct PackPass {
  Element* flat = nullptr;
  float weight = 1;
  const float* owed = nullptr;  // flat, or null
  uint32_t largest = 0;         // of this thread, as Thread::Key

  RW_DEVICE const Element* From(const PartView& part, uint64_t at) const {
    return static_cast<const Element*>(part.data) + at;
  }
  RW_DEVICE Element* To(const PartView& part, uint64_t at) const { return flat + part.flat + at; }
  RW_DEVICE bool reads() const { return weight != 0; }
  template <class Thread>
  RW_DEVICE float Value(float from, const PartView& part, uint64_t at) {
    float value = reads() ? weight * from : 0;
    if (owed != nullptr) value += owed[part.flat + at];
    const uint32_t key = Thread::Key(value);
    if (key > largest) largest = key;
    return value;
  }
};

// part = flat / total. In double where the divisor is no float: the quotient is then rounded twice,
// as on the CPU. `zero`: of no weight at all; the parts become zeros.
template <class Element, class Wide>
struct UnpackPass {
  const Element* flat = nullptr;
  Wide total = 1;
  bool zero = false;

  RW_DEVICE const Element* From(const PartView& part, uint64_t at) const {
    return flat + part.flat + at;
  }
  RW_DEVICE Element* To(const PartView& part, uint64_t at) const {
    return static_cast<Element*>(part.data) + at;
  }
  RW_DEVICE bool reads() const { return !zero; }
  template <class Thread>
  RW_DEVICE float Value(float from, const PartView&, uint64_t) {
    return zero ? 0 : static_cast<float>(static_cast<Wide>(from) / total);
  }
};

// The part that holds element `at` of the launch.
RW_DEVICE inline uint32_t PartOf(const PartsView& parts, uint64_t at) {
  uint32_t low = 0, high = parts.count;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (parts.parts[middle].begin <= at ? low : high) = middle;
  }
  return low;
}

template <class Thread, class Pass>
RW_DEVICE void PassOne(Pass& pass, const PartView& part, uint64_t at) {
  const float from = pass.reads() ? ToFloat<Thread>(*pass.From(part, at)) : 0;
  Store<Thread>(pass.To(part, at), pass.template Value<Thread>(from, part, at));
}

// Elements `first` to `last` of one part, at most a tile. All loads are issued before the first
// result is needed.
template <class Thread, class Pass>
RW_DEVICE void PassRun(Thread& thread, Pass& pass, const PartView& part, uint64_t first,
                       uint64_t last) {
  const uint64_t whole = first + (last - first) / 4 * 4;
  const uint64_t mine = first + thread.id() * 4;
  Four from[kPartVectors] = {};
  for (uint32_t v = 0; v < kPartVectors; ++v) {
    const uint64_t at = mine + v * kThreads * 4;
    if (at < whole && pass.reads()) from[v] = LoadFour<Thread>(pass.From(part, at));
  }
  for (uint32_t v = 0; v < kPartVectors; ++v) {
    const uint64_t at = mine + v * kThreads * 4;
    if (at >= whole) break;
    Four to;
    for (uint32_t c = 0; c < 4; ++c) {
      to.at[c] = pass.template Value<Thread>(from[v].at[c], part, at + c);
    }
    StoreFour<Thread>(pass.To(part, at), to);
  }
  if (whole + thread.id() < last) PassOne<Thread>(pass, part, whole + thread.id());
}

template <class Thread, class Pass>
RW_DEVICE void PassParts(Thread& thread, Pass& pass, const PartsView& parts) {
  for (uint64_t base = uint64_t{thread.block()} * kPartTile; base < parts.elements;
       base += uint64_t{thread.blocks()} * kPartTile) {
    const uint64_t end = base + kPartTile < parts.elements ? base + kPartTile : parts.elements;
    uint32_t p = PartOf(parts, base);
    const PartView& part = parts.parts[p];
    if (end <= part.begin + part.elements) {
      PassRun(thread, pass, part, base - part.begin, end - part.begin);
      continue;
    }
    for (uint64_t at = base + thread.id(); at < end; at += kThreads) {  // several, or their borders
      while (at >= parts.parts[p].begin + parts.parts[p].elements) ++p;
      PassOne<Thread>(pass, parts.parts[p], at - parts.parts[p].begin);
    }
  }
}

// *largest becomes at least every |packed value|, by Thread::Key.
template <class Thread, class Element>
RW_DEVICE void PackParts(Thread& thread, PackPass<Element> pass, const PartsView& parts,
                         uint32_t* largest) {
  PassParts(thread, pass, parts);
  const uint32_t of_warp = thread.WarpMax(pass.largest);
  if (thread.lane() == 0 && of_warp != 0) thread.AtomicMax(largest, of_warp);
}

}  // namespace ringwood::cuda
