// What this rank keeps of each tensor from round to round: the error-feedback residual and the
// velocity of a sparse one, the wire's rounding error of a dense one. Checkpoints save it, changes
// of the plan carry it over.
//
// A tensor's state is in one place at a time:
//   sparse, on the host     a SparseTensor of ours, which its exchange works on
//   sparse, on a device     its exchange, which has taken over what we had
//   dense                   its exchange, where the wire rounds; and until the first commit after
//                           it was sparse, a SparseTensor of ours that the exchange carries
//
// Trainer's thread. The compute loop works on the states from ready to the round's end, and after
// it for a moment to read.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/checkpoint/arena.h"
#include "client/checkpoint/restore.h"
#include "client/exchange/device_sparse_exchange.h"
#include "client/exchange/exchange.h"
#include "client/options/options.h"
#include "client/tensor_table.h"
#include "sparse/sparse_tensor.h"

namespace ringwood {

class TensorStates {
 public:
  // The exchange that has a tensor, during one plan.
  struct Holder {
    const Exchange* exchange = nullptr;
    DeviceSparseExchange* device = nullptr;  // the same, where it has the tensor's state
    size_t index = 0;                        // of the tensor in the exchange
  };

  // Both outlive this.
  TensorStates(const SessionOptions& options, const TensorTable& table)
      : options_(options), table_(table) {}

  // The table is complete. `from` is the checkpoint; null: nothing is owed.
  Status Begin(Restore* from);

  // A plan ends: takes over what its exchanges hold, and forgets them.
  Status TakeBack();
  // A plan begins: makes what its sparse tensors need, with their k. Then its exchanges are made.
  void Prepare(const Plan& plan);
  // By id; the exchanges live until the next TakeBack.
  void Hand(std::vector<Holder> holders);

  // Ours, or null. After Prepare, for the exchanges that are made.
  SparseTensor* of(size_t id) { return states_[id].get(); }
  bool IsMasked(const Group& group) const;  // momentum factor masking

  void Committed();  // a round was applied, and what dense tensors owed was in it

  // What was not applied yet, in units of weight * gradient; `out` has the tensor's elements.
  Status ReadResidual(size_t id, std::span<float> out) const;

  // The items that a checkpoint has of this rank. Refused between ready and the end of the step.
  // They point into the states, and into `copies` of what devices have.
  Status AppendItems(std::vector<Item>* items,
                     std::vector<std::unique_ptr<SparseTensor>>* copies) const;

 private:
  std::unique_ptr<SparseTensor> Make(size_t id, uint64_t k) const;
  StatusOr<std::unique_ptr<SparseTensor>> Restored(size_t id, Restore* from) const;
  StatusOr<std::unique_ptr<SparseTensor>> CopyFromDevice(size_t id) const;
  // The exchange of its device's, or null.
  DeviceSparseExchange* DeviceOf(size_t id) const {
    return holders_.empty() ? nullptr : holders_[id].device;
  }
  std::span<const float> WireError(size_t id) const;  // empty: nothing is rounded on the wire

  const SessionOptions& options_;
  const TensorTable& table_;
  std::vector<std::unique_ptr<SparseTensor>> states_;  // by id; empty before Begin
  std::vector<Holder> holders_;                        // by id; empty while there is no plan
  std::vector<size_t> carried_;  // ids of dense tensors that owe until the next commit
};

}  // namespace ringwood
