// How the entries of a tensor are selected, step after step: several methods behind one interface.
// All select at most k, never zeros, NaN or Inf, and leave the rest in the residual.
//
//   exact      the k first of the selection order (key.h)
//   threshold  what reaches the threshold that the last steps needed for k: no exact cut, down to
//              k/2 entries where values fell; the k first, by another pass, where they fell further
//   gaussian   Gaussian-k (Shi et al. 2019): the threshold above which a normal distribution of the
//              same mean and deviation has k values, corrected by counting up to three times
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "sparse/entries.h"
#include "sparse/select.h"

namespace ringwood {

enum class Method { kExact, kThreshold, kGaussian };

// "exact", "threshold" or "gaussian"; an error names them.
StatusOr<Method> ParseMethod(const std::string& name);

// One per tensor. Its memory of the last steps is a guess; a result depends on it for kThreshold
// only.
class Selector {
 public:
  virtual ~Selector() = default;

  // The pass that updates the residual need not offer lower keys; from 1 to kFirstNonFiniteKey, at
  // which nothing selectable is offered.
  virtual uint32_t Floor() const = 0;

  // `topk` was offered the values at or above the floor and is settled; more may be offered to it.
  // Replaces `picks`.
  virtual void Select(std::span<const float> values, TopK* topk, Entries* picks) = 0;

  // The step of the last Select was committed. Without this call the next Select ignores that step.
  virtual void Commit() {}
};

// With chunk_elements > 0 every chunk of so many elements gives its share of k (shares differ by at
// most one and add up to k), exactly: there is no threshold of the whole then.
std::unique_ptr<Selector> MakeSelector(Method method, uint64_t chunk_elements);

// x such that a normal variable is above it with this probability; 0 < tail <= 0.5.
double UpperQuantile(double tail);

}  // namespace ringwood
