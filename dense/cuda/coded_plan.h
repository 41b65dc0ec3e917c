// How a rank all-reduces device memory as codes over NCCL, as a value; dense/cuda/coded_run.h runs
// it. NCCL moves bytes only, so every rounding is that of dense/lattice/codes.h: the source's.
// Codes add up as integers, so the result has the same bits whatever hosts the ranks are on.
//
// A chunk (host_exchanges.h) runs through all of it, then the next one:
//
//     encode │ exchange │ add │ exchange │ add │ exchange │ exchange │ decode
//              inside           between          between    inside
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "dense/cuda/host_exchanges.h"
#include "dense/hosts.h"
#include "dense/lattice/codes.h"

namespace ringwood::cuda {

// 64 MiB of fp32: long enough to fill a network, and staging memory is that of a chunk.
constexpr uint64_t kCodedChunkPacks = uint64_t{1} << 16;

struct CodedShape {
  int rank = 0;
  Hosts hosts;     // of all ranks
  int levels = 0;  // of the codes; sums of all ranks have 16 bits at most
  uint64_t elements = 0;
};

enum class CodedOp { kEncode, kExchange, kAdd, kDecode };

// With one peer, and where it lies in the staging memory. Messages between two ranks have the same
// order on both.
struct CodedMessage {
  int peer = 0;
  uint64_t at = 0;
  uint64_t bytes = 0;
};

// Packed codes or sums in the staging memory.
struct StagedSum {
  uint64_t at = 0;
  int width = 0;
};

struct CodedStep {
  CodedOp op = CodedOp::kEncode;
  // The chunk: its first block in the tensor, and how many of the tensor's are in it, at least 1.
  uint64_t first = 0;
  uint64_t blocks = 0;
  uint64_t packs = 0;  // that are encoded, or of the sum that is made: more than the tensor has
  StagedSum result;    // of encode and add; what decode reads
  // Add: this rank's summand, and those of `others` ranks or hosts, one after the other.
  uint64_t own = 0;
  uint64_t rest = 0;
  int others = 0;
  int width = 0;  // of all of them
  // Exchange; nothing where this rank's host has no other rank.
  std::vector<CodedMessage> sends, receives;
};

struct CodedPlan {
  CodedShape shape;
  std::vector<CodedStep> steps;
  uint64_t staging_bytes = 0;
  uint64_t sent_bytes = 0;  // by this rank to all others
};

class CodedPlanMaker {
 public:
  explicit CodedPlanMaker(const CodedShape& shape)
      : ranks_(RanksOf(shape.hosts)),
        largest_host_(LargestHost(shape.hosts)),
        exchanges_(shape.hosts, shape.rank) {
    plan_.shape = shape;
  }

  CodedPlan Make(uint64_t chunk_packs) && {
    const uint64_t blocks = LatticeBlocks(plan_.shape.elements);
    const uint64_t chunk_blocks = chunk_packs * kPackBlocks;
    for (uint64_t first = 0; first < blocks; first += chunk_blocks) {
      AddChunk(first, std::min(chunk_blocks, blocks - first));
    }
    return std::move(plan_);
  }

 private:
  // Sums of parts from `first` on, which lie one after the other.
  struct Staged {
    StagedSum sum;
    uint64_t first = 0;
  };

  // Of `parts` parts of the chunk.
  uint64_t Bytes(int width, uint64_t parts) const {
    return PackedBytes(parts * part_packs_ * kPackBlocks, width);
  }
  uint64_t At(const Staged& staged, uint64_t part) const {
    return staged.sum.at + Bytes(staged.sum.width, part - staged.first);
  }
  uint64_t Take(uint64_t bytes) {
    constexpr uint64_t kAlign = 256;  // as CUDA's own allocations
    const uint64_t at = (end_ + kAlign - 1) / kAlign * kAlign;
    end_ = at + bytes;
    plan_.staging_bytes = std::max(plan_.staging_bytes, end_);
    return at;
  }
  CodedStep& Append(CodedOp op) {
    CodedStep step = chunk_;
    step.op = op;
    plan_.steps.push_back(std::move(step));
    return plan_.steps.back();
  }

  void AddChunk(uint64_t first, uint64_t blocks) {
    const uint64_t parts = exchanges_.parts(), hosts = exchanges_.hosts();
    part_packs_ = (blocks / kPackBlocks + parts - 1) / parts;
    chunk_ = {};
    chunk_.first = first;
    chunk_.blocks = blocks;
    end_ = 0;
    const Staged codes = {{Take(Bytes(Width(1), parts)), Width(1)}};
    CodedStep& encode = Append(CodedOp::kEncode);
    encode.packs = parts * part_packs_;
    encode.result = codes.sum;
    Staged sums = {{codes.sum.at, Width(ranks_)}};  // of a rank alone: its codes
    if (parts > 1) sums.sum.at = Take(Bytes(sums.sum.width, parts));
    // Of this rank's slices, by all ranks of this host.
    Staged here = codes;
    if (largest_host_ > 1) {
      const Parts mine = exchanges_.mine();
      here = {{At(sums, mine.first), sums.sum.width}, mine.first};
      if (hosts > 1) {
        here.sum.width = Width(largest_host_);
        here.sum.at = Take(Bytes(here.sum.width, mine.count));
      }
      const uint64_t came = Receive(exchanges_.AddInside(), codes);
      AppendAdd(codes, mine, came, exchanges_.neighbours(), here);
    }
    if (hosts > 1) {
      const uint64_t came = Receive(exchanges_.AddBetween(), here);
      const uint64_t others = hosts - 1;
      for (uint64_t s = 0; s < exchanges_.slices(); ++s) {
        AppendAdd(here, {exchanges_.Final(s), 1}, came + Bytes(here.sum.width, s * others),
                  static_cast<int>(others), sums);
      }
      Gather(exchanges_.GatherBetween(), sums);
    }
    if (largest_host_ > 1) Gather(exchanges_.GatherInside(), sums);
    Append(CodedOp::kDecode).result = sums.sum;
  }

  // Where the first of what comes lies, to be added.
  uint64_t Receive(const PartExchange& messages, const Staged& from) {
    CodedStep& step = Append(CodedOp::kExchange);
    Send(messages, from, &step);
    uint64_t parts = 0;
    for (const PartMessage& message : messages.receives) parts += message.parts.count;
    const uint64_t came = Take(Bytes(from.sum.width, parts));
    uint64_t at = came;
    for (const PartMessage& message : messages.receives) {
      const uint64_t bytes = Bytes(from.sum.width, message.parts.count);
      step.receives.push_back({message.peer, at, bytes});
      at += bytes;
    }
    return came;
  }

  void Gather(const PartExchange& messages, const Staged& sums) {
    CodedStep& step = Append(CodedOp::kExchange);
    Send(messages, sums, &step);
    for (const PartMessage& message : messages.receives) {
      step.receives.push_back({message.peer, At(sums, message.parts.first),
                               Bytes(sums.sum.width, message.parts.count)});
    }
  }

  void Send(const PartExchange& messages, const Staged& from, CodedStep* step) {
    for (const PartMessage& message : messages.sends) {
      const uint64_t bytes = Bytes(from.sum.width, message.parts.count);
      step->sends.push_back({message.peer, At(from, message.parts.first), bytes});
      plan_.sent_bytes += bytes;
    }
  }

  void AppendAdd(const Staged& own, const Parts& parts, uint64_t rest, int others,
                 const Staged& to) {
    CodedStep& add = Append(CodedOp::kAdd);
    add.own = At(own, parts.first);
    add.rest = rest;
    add.others = others;
    add.width = own.sum.width;
    add.packs = parts.count * part_packs_;
    add.result = {At(to, parts.first), to.sum.width};
  }

  int Width(int terms) const { return LatticeWidth(plan_.shape.levels, terms); }

  const int ranks_, largest_host_;
  const HostExchanges exchanges_;
  CodedPlan plan_;
  // Of the chunk that is made.
  CodedStep chunk_;
  uint64_t part_packs_ = 0;
  uint64_t end_ = 0;  // of the staging memory that is taken
};

inline CodedPlan CodedPlanFor(const CodedShape& shape, uint64_t chunk_packs = kCodedChunkPacks) {
  return CodedPlanMaker(shape).Make(chunk_packs);
}

}  // namespace ringwood::cuda
