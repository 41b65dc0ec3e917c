// The elements of dense groups in a device's memory: float, or bfloat16 as its bits. Kernels
// compute in float and round to nearest even. Generic in the Thread (base/cuda/threads.h).
#pragma once

#include <cstdint>

#include "base/cuda/threads.h"
#include "dense/arithmetic/bfloat16_bits.h"

namespace ringwood::cuda {

struct alignas(8) FourHalves {
  uint16_t at[4];
};

template <class Thread>
RW_DEVICE float ToFloat(float value) {
  return value;
}
template <class Thread>
RW_DEVICE float ToFloat(uint16_t bits) {
  return Thread::FromKey(FloatBitsOf(bits));
}

template <class Thread>
RW_DEVICE void Store(float* to, float value) {
  *to = value;
}
template <class Thread>
RW_DEVICE void Store(uint16_t* to, float value) {
  *to = BFloat16BitsOf(Thread::Word(value));
}

template <class Element>
RW_DEVICE bool HasFour(const Element* address) {
  return reinterpret_cast<uintptr_t>(address) % (4 * sizeof(Element)) == 0;
}

// Four elements, in one access where their address allows it.
template <class Thread>
RW_DEVICE Four LoadFour(const float* from) {
  if (HasFour(from)) return Thread::Load4(from);
  return Four{{from[0], from[1], from[2], from[3]}};
}
template <class Thread>
RW_DEVICE Four LoadFour(const uint16_t* from) {
  FourHalves halves;
  if (HasFour(from)) {
    halves = *reinterpret_cast<const FourHalves*>(from);
  } else {
    for (uint32_t c = 0; c < 4; ++c) halves.at[c] = from[c];
  }
  Four four;
  for (uint32_t c = 0; c < 4; ++c) four.at[c] = ToFloat<Thread>(halves.at[c]);
  return four;
}

template <class Thread>
RW_DEVICE void StoreFour(float* to, const Four& value) {
  if (HasFour(to)) return Thread::Store4(to, value);
  for (uint32_t c = 0; c < 4; ++c) to[c] = value.at[c];
}
template <class Thread>
RW_DEVICE void StoreFour(uint16_t* to, const Four& value) {
  FourHalves halves;
  for (uint32_t c = 0; c < 4; ++c) halves.at[c] = BFloat16BitsOf(Thread::Word(value.at[c]));
  if (HasFour(to)) {
    *reinterpret_cast<FourHalves*>(to) = halves;
    return;
  }
  for (uint32_t c = 0; c < 4; ++c) to[c] = halves.at[c];
}

}  // namespace ringwood::cuda
