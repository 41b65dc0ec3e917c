// The committing kernel's body: picks that were accepted leave the new residual, and the momentum
// forgets them. One thread a place in the pick arrays. Generic in the Thread like the other steps.
#pragma once

#include "sparse/cuda/view.h"

namespace ringwood::cuda {

// The tensor whose part of the pick arrays holds `place`.
RW_DEVICE inline uint32_t TensorOfPick(const GroupView& group, uint32_t place) {
  uint32_t low = 0, high = group.tensor_count;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (group.tensors[middle].first_pick <= place ? low : high) = middle;
  }
  return low;
}

// `sent`: what travelled for each pick, which differs from its value where a code rounds.
// `masking`: whether accepted picks clear their momentum.
template <class Thread>
RW_DEVICE void SettlePick(const GroupView& group, const float* sent, const uint8_t* accepted,
                          bool masking, uint32_t place) {
  const uint32_t t = TensorOfPick(group, place);
  const TensorView& tensor = group.tensors[t];
  if (place - tensor.first_pick >= group.outcomes[t].picked || accepted[place] == 0) return;
  if (sent[place] == 0) return;  // a coarse code sent nothing of it
  const uint32_t index = group.pick_index[place];
  tensor.residual[1 - group.present][index] -= sent[place];
  if (masking && tensor.momentum[0] != nullptr) tensor.momentum[1 - group.present][index] = 0;
}

}  // namespace ringwood::cuda
