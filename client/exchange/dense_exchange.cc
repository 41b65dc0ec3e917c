#include "client/exchange/dense_exchange.h"

#include <algorithm>
#include <bit>

#include "client/exchange/scale.h"
#include "dense/all_reduce.h"

namespace ringwood {
namespace {

size_t ElementsOf(const std::vector<const Tensor*>& tensors) {
  size_t elements = 0;
  for (const Tensor* tensor : tensors) elements += tensor->spec.elements;
  return elements;
}

bool AllFinite(std::span<const float> values) {
  uint32_t largest = 0;  // magnitude, as bits: their order is that of the values
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  }
  return largest < 0x7f800000u;
}

}  // namespace

DenseExchange::DenseExchange(const Place& place, uint32_t group, const Group& spec,
                             std::vector<const Tensor*> tensors)
    : place_(place),
      group_(group),
      wire_(spec.codec),
      tensors_(std::move(tensors)),
      input_(ElementsOf(tensors_)),
      output_(input_.size()) {
  if (wire_ != "bf16") return;
  for (Buffer<float>& error : error_) error = Buffer<float>(input_.size());
}

void DenseExchange::Pack(float weight, std::function<void(Status)> packed) {
  non_finite_ = false;
  size_t at = 0;
  for (const Tensor* tensor : tensors_) {
    non_finite_ |= ScaleInto(tensor->gradient(), weight, place_.world,
                             input_.span().subspan(at, tensor->spec.elements));
    at += tensor->spec.elements;
  }
  packed(OkStatus());
}

void DenseExchange::Start(Transport* transport, uint64_t round, std::function<void(Status)> done) {
  AllReduceRequest request{};
  request.place = place_;
  request.name = {Lane::kDense, round, group_};
  request.type = DataType::kFloat32;
  request.wire = wire_;
  request.input = std::as_bytes(std::as_const(input_).span());
  request.output = std::as_writable_bytes(output_.span());
  request.error = error_[present_].span();
  request.next_error = error_[1 - present_].span();
  StartAllReduce(transport, request,
                 [this, done = std::move(done)](StatusOr<AllReduceResult> result) {
                   if (result.ok()) {
                     digest_ = result->digest;
                     sent_bytes_ = result->sent_bytes;
                     // Rounding may overflow; what does shows in the sum.
                     if (wire_ == "bf16") non_finite_ |= !AllFinite(output_.span());
                   }
                   done(result.status());
                 });
}

void DenseExchange::Apply(double total_weight) {
  size_t at = 0;
  for (const Tensor* tensor : tensors_) {
    DivideInto(output_.span().subspan(at, tensor->spec.elements), total_weight, tensor->gradient());
    at += tensor->spec.elements;
  }
  present_ = 1 - present_;
}

size_t DenseExchange::FirstOf(size_t tensor) const {
  size_t first = 0;
  for (size_t t = 0; t < tensor; ++t) first += tensors_[t]->spec.elements;
  return first;
}

std::optional<TensorSum> DenseExchange::sum(size_t tensor) const {
  return TensorSum{output_.span().subspan(FirstOf(tensor), tensors_[tensor]->spec.elements)};
}

std::span<const float> DenseExchange::error(size_t tensor) const {
  if (wire_ != "bf16") return {};
  return error_[present_].span().subspan(FirstOf(tensor), tensors_[tensor]->spec.elements);
}

void DenseExchange::TakeErrors(DenseExchange& from) {
  std::swap(error_, from.error_);
  present_ = from.present_;
}

}  // namespace ringwood
