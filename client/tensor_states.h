// The state that this rank keeps of each tensor from round to round: error-feedback residual and
// velocity of a sparse one, the wire's rounding error of a dense one, and what the blocks of its
// codes reach, which is the same on all ranks. Checkpoints save it, a change of the plan carries it
// over.
//
// A tensor's state is in one place at a time:
//   sparse, on the host     a SparseTensor of ours, which its exchange works on
//   sparse, on a device     its exchange, which has taken the state over
//   dense                   its exchange, if the wire rounds; until the first commit after a change
//                           from sparse also a SparseTensor of ours, which the exchange carries
//
// Trainer's thread. The compute loop uses the states from ready to the round's end, and reads them
// shortly after it.
#pragma once

#include <map>
#include <memory>
#include <optional>
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
#include "dense/lattice/codes.h"
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

  // The table is complete. `from` is the checkpoint; null: there are no residuals. `rank` of
  // `world` takes what ranks rank, rank + world, rank + 2 * world, ... of the checkpoint owed: its
  // own, and that of ranks that are no more. So the sum over all ranks stays what it was, whatever
  // the world. Velocities are each rank's own: those of ranks that are no more end.
  Status Begin(Restore* from, int rank, int world);

  // While there is no plan: the Euclidean norm of what all tensors owe, and what they owe is lost.
  double Norm() const;
  void Forget();
  // Likewise: what blocks reach begins anew, on all ranks, where one of them may not know it.
  void ForgetReaches() { reaches_.clear(); }

  // Whether the tensor can owe something: alike on all ranks after a commit.
  bool Owes(size_t id) const;
  // While there is no plan: the tensor owes this, too.
  void Add(size_t id, std::span<const float> owed);

  // A plan ends: takes the states of its exchanges back, and forgets them.
  Status TakeBack();
  // A plan begins: makes the states of its sparse tensors, with their k. Then its exchanges are
  // made.
  void Prepare(const Plan& plan);
  // By id; the exchanges live until the next TakeBack.
  void Hand(std::vector<Holder> holders);

  // Ours, or null. After Prepare, for the exchanges that are made.
  SparseTensor* of(size_t id) { return states_[id].get(); }
  bool IsMasked(const Group& group) const;  // momentum factor masking
  // Of a tensor's blocks, while there is no plan and for the exchanges that are made. Empty: not
  // known.
  std::span<const BlockReach> reach(size_t id) const;

  // Between the end of a round's exchange and its Apply or Abort: what it brings a tensor. Nothing:
  // the tensor is on a device.
  std::optional<TensorSum> SumOf(size_t id) const {
    return holders_[id].exchange->sum(holders_[id].index);
  }

  // A round was applied, with the residuals of the dense tensors whose turn it was.
  void Committed(uint64_t round);

  // The error-feedback residual in units of weight * gradient; `out` has the tensor's elements.
  Status ReadResidual(size_t id, std::span<float> out) const;

  // The items that a checkpoint has of this rank. Refused between ready and the end of the step.
  // They point into the states, where they stay as they are until a round commits or the plan or
  // the epoch changes, and into `copies` of what devices have.
  Status AppendItems(std::vector<Item>* items,
                     std::vector<std::unique_ptr<SparseTensor>>* copies) const;

 private:
  std::unique_ptr<SparseTensor> Make(size_t id, uint64_t k) const;
  // What rank `of` of the checkpoint owed; `own`: this rank was it. Adds the tensor to `stilled` if
  // its velocity is saved and it has none now.
  Status TakeOwed(size_t id, Restore* from, int of, bool own, std::vector<std::string>* stilled);
  StatusOr<std::unique_ptr<SparseTensor>> CopyFromDevice(size_t id) const;
  // The exchange of its device's, or null.
  DeviceSparseExchange* DeviceOf(size_t id) const {
    return holders_.empty() ? nullptr : holders_[id].device;
  }
  const Exchange* ExchangeOf(size_t id) const {  // or null
    return holders_.empty() ? nullptr : holders_[id].exchange;
  }
  // Empty: nothing is rounded on the wire, it has no codes.
  StatusOr<std::span<const float>> WireError(size_t id) const;
  StatusOr<std::span<const BlockReach>> WireReach(size_t id) const;
  Status RestoreReach(size_t id, Restore* from);

  const SessionOptions& options_;
  const TensorTable& table_;
  std::vector<std::unique_ptr<SparseTensor>> states_;  // by id; empty before Begin
  std::vector<Holder> holders_;                        // by id; empty while there is no plan
  std::map<size_t, std::vector<BlockReach>> reaches_;  // by id, as they were before this plan
  std::vector<size_t> carried_;  // ids of dense tensors with a residual until a commit sends it
};

}  // namespace ringwood
