// A worker's state of one sparse tensor: the error-feedback residual, the momentum, the selected
// entries.
//
// Accumulate writes to a shadow; the present residual is unchanged until Commit swaps the two, so
// that Abort restores it to the bit ((e + g) − g differs from e for a third of all floats). For
// every committed step, exactly where float sums are exact:
//   decay·residual_before + x = accepted picks + residual_after,  x = weight·gradient, or the
//   momentum.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/buffer.h"
#include "sparse/entries.h"
#include "sparse/select.h"
#include "sparse/selector.h"

namespace ringwood {

struct SparseOptions {
  uint64_t k = 1;      // entries selected at most; 1..elements
  float momentum = 0;  // momentum correction (DGC, Lin et al. 2018): 0 = off
  float decay = 1;     // β of e ← β·e + x
  // Scope of the selection. 0: the whole tensor. Otherwise each chunk of so many elements gives its
  // share of k (shares differ by at most one and add up to k), so there is no global threshold.
  uint64_t chunk_elements = 0;
  Method method = Method::kExact;  // kExact where chunk_elements is not 0
};

// Touched on one thread at a time.
class SparseTensor {
 public:
  SparseTensor(uint64_t elements, const SparseOptions& options);

  // e' = decay·e + (momentum ? (u' = momentum·u + weight·g) : weight·g), then selects at most k of
  // e' by the method.
  // Takes effect on Commit; a second call before it starts again from the present residual. Returns
  // the number of NaN and Inf in e': they are never selected, and a step with any must not be
  // committed.
  uint64_t Accumulate(std::span<const float> gradient, float weight);

  // Tensor coordinates. Valid from Accumulate to the next one.
  const Entries& picks() const { return picks_; }

  // The value that was sent for each pick, if a value code rounds: the difference stays in the
  // residual. Between Accumulate and Commit; one value per pick.
  void SetSent(std::span<const float> values);

  // Swaps the shadow in. One byte (0 or 1) per pick: accepted picks leave the residual
  // and, with masking, clear the momentum there; the others stay, and so do those for which a code
  // sent 0.
  void Commit(std::span<const uint8_t> accepted);

  // Drops the shadow, as if Accumulate had not run. Does nothing without a pending Accumulate.
  void Abort();

  bool pending() const { return pending_; }
  uint64_t elements() const { return elements_; }
  void set_k(uint64_t k);  // a new density; not while pending
  // Whether accepted picks clear the momentum (DGC's momentum factor masking); on at first. Without
  // it the velocity of an applied entry is kept.
  void set_masking(bool masking) { masking_ = masking; }

  std::span<const float> residual() const { return residual_[present_].span(); }
  std::span<float> mutable_residual() { return residual_[present_].span(); }
  std::span<float> mutable_momentum() { return momentum_[present_].span(); }  // empty when off

 private:
  const uint64_t elements_;
  const SparseOptions options_;
  int present_ = 0;  // which of the pairs is real; the other is the shadow
  Buffer<float> residual_[2];
  Buffer<float> momentum_[2];  // empty when off
  TopK topk_;
  const std::unique_ptr<Selector> selector_;
  Entries picks_;
  bool pending_ = false;
  bool masking_ = true;
};

}  // namespace ringwood
