// The entries that a reducer's children send in one round: chunks are decoded in order, and added
// block by block as soon as all children have a block. Pure: bytes and losses come in.
//
// A child whose chunks do not come any more is lost. Between two rounds that is no failure: peers
// leave in order. It is one when somebody waits, that is, when another child has sent something of
// the round or when nobody is left who could.
#pragma once

#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "sparse/entries.h"
#include "sparse/merge.h"
#include "sparse/reducer/part.h"

namespace ringwood {

// Children are counted as in `part`, which outlives this.
class ChildEntries {
 public:
  explicit ChildEntries(const ReducerPart& part);  // takes all memory that rounds need

  void Restart();  // nothing of the next round is here

  std::span<std::byte> Inbox(size_t child, int chunk);  // where its bytes are received

  // The chunk is in its inbox. An error: these are no entries that the child may send.
  Status Take(size_t child, int chunk, std::span<const std::byte> bytes);
  void Lose(size_t child, const Status& why);  // a chunk will not come
  Status Failure() const;                      // OK: nobody waits for a child that is lost

  // Adds what all children have: everything below the least of their last entries.
  void Merge(BlockRoom* room);
  bool complete() const { return missing_ == 0; }  // all children have sent all, and it is merged

  // Keeps those entries of the sum that were accepted above: one bit for each entry.
  Status KeepAccepted(std::span<const std::byte> bits);

  // The sum; once it is cut, what survived here, in the order in which it goes up. KeepAccepted
  // changes its indices only.
  Entries* sum() { return merger_.sum(); }
  std::span<const Entries> entries() const { return entries_; }  // of each child

 private:
  struct Child {
    Buffer<std::byte> inbox{};                          // all chunks, bounded by the plan
    std::vector<std::span<const std::byte>> arrived{};  // one a chunk
    std::vector<bool> here{};                           // one a chunk
    int read = 0;                                       // chunks that are decoded
    bool lost = false;
  };

  const ReducerPart& part_;
  std::vector<Child> children_;
  std::vector<Entries> entries_;
  Merger merger_;
  std::vector<uint8_t> accepted_;
  bool heard_ = false;  // somebody has sent something
  size_t missing_ = 0;  // children that have not sent all
  size_t lost_ = 0;     // children
  Status why_;          // of the first of them
};

}  // namespace ringwood
