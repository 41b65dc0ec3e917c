// The registered gradients: by id, in order of registration, and by index in the table that plans
// and the coordinator use.
//
// Add and Rebind on the trainer's thread; other threads read under a lock of the owner.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "client/exchange/tensor.h"
#include "client/options/options.h"
#include "plan/plan.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

class TensorTable {
 public:
  // `options` are the defaults of a tensor that does not set its own; they outlive this.
  explicit TensorTable(const SessionOptions& options) : options_(options) {}

  // Checks whether `tensor` may be added; the error says what to change. Adds nothing.
  Status Check(const Tensor& tensor) const;
  // After Check was OK. The id: 0, 1, 2, ...
  int Add(const Tensor& tensor);
  void Rebind(int id, void* data) {
    apart_ &= data == tensors_[id]->data;
    tensors_[id]->data = data;
  }
  // Whether each gradient has memory of its own. Before all of them are ready two may be in one
  // place: one of them was freed there and is rebound later.
  Status CheckApart() const;
  void TakeWorld(int world);  // clipping counts with it; the options' until then

  bool empty() const { return tensors_.empty(); }
  size_t size() const { return tensors_.size(); }
  Status CheckId(int id) const;
  const Tensor& operator[](size_t id) const { return *tensors_[id]; }  // stays where it is
  std::vector<const Tensor*> ById() const;
  const std::string& name(size_t id) const { return tensors_[id]->spec.name; }
  uint64_t dense_bytes() const;  // of all, as they are

  // The table is in the order in which backward is expected to make the gradients: last first.
  TableIndex IndexOf(size_t id) const { return {static_cast<uint32_t>(tensors_.size() - 1 - id)}; }
  size_t IdOf(TableIndex index) const { return tensors_.size() - 1 - index.value; }
  std::vector<size_t> IdsOf(const Group& group) const;  // in the group's order
  std::vector<TensorSpec> Specs() const;                // in the table's order
  void Describe(v1::AgreeRequest* request) const;       // the same, with what must be equal

  double momentum(size_t id) const { return tensors_[id]->momentum.value_or(options_.momentum); }
  bool IsOnDevice() const;              // the tensors are; all or none
  std::vector<uint32_t> Turns() const;  // in the table's order; plan/turns.h
  // Turns and decays, alike on all ranks: "" where all tensors take part in every round and keep
  // what they owe.
  std::string DescribeTurns() const;
  // Checks whether a device can select from it; Invalid names the option that is not supported.
  Status CheckSelection(const Tensor& tensor) const;

 private:
  double ClipNorm(const Tensor& tensor) const {
    return tensor.clip_norm.value_or(options_.clip_norm);
  }
  double NormLimit(const Tensor& tensor) const;
  Status CheckPlace(const Tensor& tensor) const;  // among those there are
  Status CheckTurns(const Tensor& tensor) const;
  Status CheckElements(const Tensor& tensor) const;  // how many, and of which type

  const SessionOptions& options_;
  int world_ = options_.world;
  std::vector<std::unique_ptr<Tensor>> tensors_;  // by id
  std::unordered_set<std::string> names_;
  mutable bool apart_ = true;  // false: not known, since one was added or moved
};

}  // namespace ringwood
