// Where the tensors of a dense group lie in its flat memory, on the host and on a device.
#pragma once

#include <cstddef>
#include <vector>

#include "client/exchange/tensor.h"
#include "dense/lattice/codes.h"

namespace ringwood {

// Where each tensor begins, and the length of all: one after the other, each with a block of its
// own if the wire has codes, so that no bit depends on what it is merged with.
inline std::vector<size_t> PlacesOf(const std::vector<const Tensor*>& tensors, bool coded) {
  std::vector<size_t> places = {0};
  for (const Tensor* tensor : tensors) {
    const size_t elements = tensor->spec.elements;
    places.push_back(places.back() + (coded ? LatticeBlocks(elements) * kLatticeBlock : elements));
  }
  return places;
}

// With codes the rounding error that is kept back may enlarge a later sum, and bfloat16 on a device
// rounds at every addition. So a gradient may be at most this many times smaller than what fits the
// sum.
constexpr int kCodedShare = 4;

}  // namespace ringwood
