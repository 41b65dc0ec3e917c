// Where the tensors of a group lie in the arrays of a GroupView: a pure function of their sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "sparse/cuda/view.h"

namespace ringwood::cuda {

// Room for candidates beyond 2k, so that small tensors seldom overflow (TopK::kSlack).
constexpr uint64_t kCandidateSlack = 4096;

struct TensorShape {
  uint64_t elements = 0;
  uint64_t k = 0;
  float momentum = 0;  // 0: off
};

struct Layout {
  std::vector<TensorView> tensors;  // without pointers
  std::vector<uint32_t> tile_tensor;
  uint32_t candidates = 0;  // length of the candidate arrays
  uint32_t picks = 0;       // length of the pick arrays
};

// Every number on the device has 32 bits; a group that needs more is refused.
inline StatusOr<Layout> LayOut(const std::vector<TensorShape>& shapes) {
  Layout layout;
  uint64_t elements = 0, candidates = 0, picks = 0, tiles = 0;
  for (const TensorShape& shape : shapes) {
    const uint64_t k = std::min(shape.k, shape.elements);
    TensorView view;
    view.elements = shape.elements;
    view.first = elements;
    view.k = static_cast<uint32_t>(k);
    view.factor = shape.momentum;
    view.first_tile = static_cast<uint32_t>(tiles);
    view.tiles = static_cast<uint32_t>((shape.elements + kTileElements - 1) / kTileElements);
    view.first_candidate = static_cast<uint32_t>(candidates);
    view.room = static_cast<uint32_t>(std::min(shape.elements, 2 * k + kCandidateSlack));
    view.first_pick = static_cast<uint32_t>(picks);
    elements += shape.elements;
    candidates += view.room;
    picks += k;
    tiles += view.tiles;
    if (shape.elements > UINT32_MAX || candidates > UINT32_MAX || tiles > INT32_MAX) {
      return Exhausted(absl::StrFormat(
          "a group with a tensor of %d elements, %d tiles and %d candidates: indices on the device "
          "have 32 bits; split the group",
          shape.elements, tiles, candidates));
    }
    layout.tile_tensor.insert(layout.tile_tensor.end(), view.tiles,
                              static_cast<uint32_t>(layout.tensors.size()));
    layout.tensors.push_back(view);
  }
  layout.candidates = static_cast<uint32_t>(candidates);
  layout.picks = static_cast<uint32_t>(picks);
  return layout;
}

}  // namespace ringwood::cuda
