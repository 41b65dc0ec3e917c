// The one pass over a sparse tensor's memory: momentum, residual and candidates together.
//
//   u' = factor·u + weight·g        (with momentum)      x = u'
//   e' = decay·e + x                (without: x = weight·g)
//   every e' at or above the list's floor is offered to it
//
// e' and u' are written past the cache (streaming stores): the old and the new residual are
// different memory, and a plain store would first read the line that it overwrites. 12 bytes an
// element, 20 with momentum. Multiplications and additions are rounded one by one, so every CPU
// gives the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "sparse/select.h"

namespace ringwood {

// Arrays of `elements` floats that do not overlap; the shadows are aligned to 64 bytes.
struct AccumulatePass {
  uint64_t elements = 0;
  const float* gradient = nullptr;  // any alignment
  const float* residual = nullptr;
  float* shadow = nullptr;
  const float* momentum = nullptr;  // null: off, and so is the next
  float* momentum_shadow = nullptr;
  float weight = 1;
  float decay = 1;
  float factor = 0;
};

void Accumulate(const AccumulatePass& pass, TopK* topk);
void AccumulatePlain(const AccumulatePass& pass, TopK* topk);  // the reference

// Only the last step: offers all values, of any alignment.
void Scan(std::span<const float> values, TopK* topk);

}  // namespace ringwood
