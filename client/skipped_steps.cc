#include "client/skipped_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "client/exchange/flat_places.h"
#include "client/exchange/gradient.h"
#include "client/exchange/scale.h"
#include "dense/lattice/reach.h"

namespace ringwood {
namespace {

float LargestOf(std::span<const float> values, float weight) {
  uint32_t largest = 0;  // as bits, whose order is that of magnitudes, NaN last
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<uint32_t>(weight * value) & 0x7fffffffu);
  }
  return std::bit_cast<float>(largest);
}

// Above it a sum of dense values may be refused, by one wire or the other.
float LeastRefused(int world) {
  const float codes = std::bit_cast<float>(static_cast<uint32_t>(kLargestReach) << 16);
  return std::min(codes, LargestSummand(world * kCodedShare));
}

}  // namespace

void SkippedSteps::Ended(const Place& place, uint64_t round, double weight, bool skipped) {
  if (!skipped) {
    in_a_row_ = 0;
    next_said_ = kFirstSaid;
    return;
  }
  if (++in_a_row_ < next_said_) return;
  next_said_ *= 10;
  std::string cause;
  const Status looked = CatchOutOfMemory([&] {
    cause = CauseHere(place.world, round, weight);
    return OkStatus();
  });
  if (!looked.ok() || cause.empty()) {
    if (place.rank != 0) return;
    cause = table_.IsOnDevice()
                ? "nothing that this rank owes is the cause; look for a NaN or Inf in gradients"
                : "nothing that this rank brings is the cause: see the lines of other ranks, and "
                  "whether any has a weight above 0";
  }
  Log(LogLevel::kWarning, "steps_skipped",
      absl::StrFormat("%d steps in a row were skipped: %s", in_a_row_, cause));
}

std::string SkippedSteps::CauseHere(int world, uint64_t round, double weight) const {
  std::string cause;
  for (size_t id = 0; id < table_.size() && cause.empty(); ++id) {
    if (table_[id].HasTurn(round)) cause = InGradient(id, world, weight);
  }
  for (size_t id = 0; id < table_.size() && cause.empty(); ++id) {
    if (table_[id].HasTurn(round)) cause = InResidual(id, world);
  }
  return cause;
}

// A gradient on a device is not looked at: that takes memory and time of both.
std::string SkippedSteps::InGradient(size_t id, int world, double weight) const {
  if (table_.IsOnDevice() || weight == 0) return "";
  std::vector<float> gradient(table_[id].spec.elements);
  ReadGradient(table_[id], gradient);
  const float most = LargestOf(gradient, static_cast<float>(weight));
  if (!std::isfinite(most)) {
    return absl::StrFormat(
        "the gradient of tensor %s has a NaN or Inf. Look for what makes it: the data, the "
        "learning rate, a loss that overflows",
        table_.name(id));
  }
  if (most <= LeastRefused(world)) return "";
  return absl::StrFormat(
      "the gradient of tensor %s is up to %.2g, too much for a sum of %d ranks: scale the loss "
      "down",
      table_.name(id), most, world);
}

std::string SkippedSteps::InResidual(size_t id, int world) const {
  std::vector<float> owed(table_[id].spec.elements);
  if (!states_.ReadResidual(id, owed).ok()) return "";
  const float most = LargestOf(owed, 1);
  if (most <= LeastRefused(world)) return "";
  const bool fits =
      most <= LargestSummand(world) && options_.wire != "native" && options_.wire != "fp32";
  return absl::StrFormat(
      "the residual of tensor %s is up to %.2g, too much for a sum of %d ranks with --wire %s: "
      "gradients of earlier steps were as large. Resume from a checkpoint before those%s",
      table_.name(id), most, world, options_.wire,
      fits ? ", or with --wire fp32, which applies it" : "");
}

}  // namespace ringwood
