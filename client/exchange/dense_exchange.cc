#include "client/exchange/dense_exchange.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "client/exchange/flat_places.h"
#include "client/exchange/gradient.h"
#include "client/exchange/scale.h"
#include "dense/all_reduce.h"

namespace ringwood {
namespace {

// Magnitudes as bits have the order of the values, NaN last.
bool AllFinite(std::span<const float> values) {
  uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  }
  return largest < 0x7f800000u;
}

bool AllFinite(std::span<const uint16_t> values) {
  uint16_t largest = 0;
  for (const uint16_t value : values) {
    largest = std::max(largest, static_cast<uint16_t>(value & 0x7fff));
  }
  return largest < 0x7f80;
}

template <class T>
std::span<const T> ViewOf(const Buffer<std::byte>& buffer) {
  return {reinterpret_cast<const T*>(buffer.data()), buffer.size() / sizeof(T)};
}

}  // namespace

DenseExchange::DenseExchange(const Place& place, uint32_t group, const Group& spec,
                             std::vector<const Tensor*> tensors, const Reaches& reaches)
    : place_(place),
      group_(group),
      sums_(spec.codec == kOwnType ? DataType::kBFloat16 : DataType::kFloat32),
      wire_(spec.codec == kOwnType ? "fp32" : spec.codec),
      tensors_(std::move(tensors)),
      first_(PlacesOf(tensors_, coded())) {
  if (encodes()) {
    packed_ = Buffer<std::byte>(
        PackedBytes(LatticeBlocks(elements()), LatticeWidth(levels(), place_.world)));
  } else {
    input_ = Buffer<std::byte>(elements() * SizeOf(sums_));
    output_ = Buffer<std::byte>(elements() * SizeOf(sums_));
  }
  if (!keeps_error()) return;
  for (Buffer<float>& error : error_) error = Buffer<float>(elements());
  if (coded()) TakeReaches(reaches);
}

void DenseExchange::TakeReaches(const Reaches& reaches) {
  for (Buffer<BlockReach>& reach : reach_) reach = Buffer<BlockReach>(LatticeBlocks(elements()));
  for (size_t t = 0; t < reaches.size(); ++t) {
    if (reaches[t].size() != LatticeBlocks(tensors_[t]->spec.elements)) continue;  // none known
    std::ranges::copy(reaches[t], reach_[present_].data() + first_[t] / kLatticeBlock);
  }
}

void DenseExchange::Pack(float weight, std::function<void(Status)> packed) {
  non_finite_ = false;
  weight_ = weight;
  if (rests_ || encodes()) return packed(OkStatus());
  const int parts = place_.world * (coded() ? kCodedShare : 1);
  for (size_t t = 0; t < tensors_.size(); ++t) {
    non_finite_ |= PackGradient(*tensors_[t], weight, parts, sums_, PartOf(input_.span(), t));
  }
  packed(OkStatus());
}

CodedEnds DenseExchange::Ends() {
  pieces_.clear();
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const std::span<const float> gradient = tensors_[t]->gradient();
    pieces_.push_back({gradient.data(), first_[t], gradient.size()});
  }
  if (reached_ && output_.size() == 0) output_ = Buffer<std::byte>(elements() * SizeOf(sums_));
  return {pieces_, weight_, reached_ ? std::span<std::byte>() : packed_.span()};
}

void DenseExchange::Start(Transport* transport, uint64_t round, std::function<void(Status)> done) {
  if (rests_) {
    digest_ = sent_bytes_ = 0;
    return done(OkStatus());
  }
  AllReduceRequest request{};
  request.place = place_;
  request.name = {Lane::kDense, round, group_};
  request.type = sums_;
  request.wire = wire_;
  request.input = std::as_const(input_).span();
  if (encodes()) request.coded = Ends();
  if (request.coded.packed.empty()) request.output = output_.span();
  request.error = error_[present_].span();
  request.next_error = error_[1 - present_].span();
  request.reach = reach_[present_].span();
  request.next_reach = reach_[1 - present_].span();
  if (coded()) {
    request.less = LessFor(levels(), tensors_.front()->wire_reach);
  }
  told_ = widened_ = 0;
  if (reached_ && narrow() && wide_.size() == 0) wide_ = Buffer<float>(elements());
  if (reached_) request.reached = [this](size_t elements) { Tell(elements); };
  StartAllReduce(transport, request,
                 [this, done = std::move(done)](StatusOr<AllReduceResult> result) {
                   if (result.ok()) {
                     digest_ = result->digest;
                     sent_bytes_ = result->sent_bytes;
                     // Rounding may overflow; what does shows in the sum.
                     if (wire_ == "bf16" || narrow()) non_finite_ |= !SumIsFinite();
                     non_finite_ |= result->non_finite;
                     if (reached_ && narrow()) WidenTo(this->elements());
                   }
                   done(result.status());
                 });
}

bool DenseExchange::SumIsFinite() const {
  return narrow() ? AllFinite(ViewOf<uint16_t>(output_)) : AllFinite(ViewOf<float>(output_));
}

void DenseExchange::WidenTo(size_t elements) {
  const auto sums = ViewOf<uint16_t>(output_).subspan(widened_, elements - widened_);
  Widen(sums, wide_.span().subspan(std::exchange(widened_, elements)));
}

void DenseExchange::Tell(size_t elements) {
  if (narrow()) WidenTo(elements);
  for (; told_ < tensors_.size() && first_[told_] < elements; ++told_) {
    const size_t length = tensors_[told_]->spec.elements;
    const size_t there = std::min(length, elements - first_[told_]);
    reached_(told_, there);
    if (there < length) return;
  }
}

void DenseExchange::Apply(double total_weight) {
  if (rests_) {
    for (const Tensor* tensor : tensors_) ClearGradient(*tensor);
    return;
  }
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (encodes() && !reached_) {
      DecodeInto(t, total_weight);
    } else {
      UnpackSum(PartOf(std::as_const(output_).span(), t), sums_, total_weight, *tensors_[t]);
    }
  }
  present_ = 1 - present_;
}

void DenseExchange::DecodeInto(size_t tensor, double total_weight) const {
  const std::span<float> gradient = tensors_[tensor]->gradient();
  const auto divisor = static_cast<float>(total_weight);
  const bool whole = static_cast<double>(divisor) == total_weight && divisor != 0;
  LatticeResult into;
  into.values = gradient.data();
  into.reach = reach_[present_].data() + first_[tensor] / kLatticeBlock;
  into.count = gradient.size();
  into.levels = levels();
  into.divisor = whole ? divisor : 1;
  const size_t begin =
      PackedBytes(LatticeBlocks(first_[tensor]), LatticeWidth(levels(), place_.world));
  DecodeSum(packed_.data() + begin, place_.world, into);
  if (!whole) DivideInto(gradient, total_weight, gradient);
}

std::optional<TensorSum> DenseExchange::sum(size_t tensor) const {
  if (rests_) return TensorSum{.dense = {}, .sparse = Entries()};
  const std::span<const float> sums = narrow() ? wide_.span() : ViewOf<float>(output_);
  RW_CHECK(sums.size() == elements());  // who looks at sums has said so before Start
  return TensorSum{sums.subspan(first_[tensor], tensors_[tensor]->spec.elements)};
}

StatusOr<std::span<const float>> DenseExchange::error(size_t tensor) const {
  if (!keeps_error()) return std::span<const float>();
  return error_[present_].span().subspan(first_[tensor], tensors_[tensor]->spec.elements);
}

StatusOr<std::span<const BlockReach>> DenseExchange::reach(size_t tensor) const {
  if (!coded()) return std::span<const BlockReach>();
  return reach_[present_].span().subspan(first_[tensor] / kLatticeBlock,
                                         LatticeBlocks(tensors_[tensor]->spec.elements));
}

void DenseExchange::TakeErrors(DenseExchange& from) {
  std::swap(error_, from.error_);
  std::swap(reach_, from.reach_);
  present_ = from.present_;
}

}  // namespace ringwood
