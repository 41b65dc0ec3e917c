// How a rank all-reduces device memory as codes over NCCL, as a value; dense/cuda/coded_run.h runs
// it. NCCL moves bytes only, so every rounding is that of dense/lattice/codes.h: the source's.
//
//     encode │ all-to-all │ add │ all-gather │ decode        a chunk, then the next one
//
// A chunk has as many parts as there are ranks, of equally many packs: the last ones are filled up
// with zeros, or have nothing else. Rank p gets part p of all ranks, adds it, and all ranks get the
// sum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dense/lattice/codes.h"

namespace ringwood::cuda {

// 64 MiB of fp32: long enough to fill a network, and staging memory is that of a chunk.
constexpr uint64_t kCodedChunkPacks = uint64_t{1} << 16;

struct CodedShape {
  int rank = 0;
  int world = 1;
  int levels = 0;  // of the codes; sums of `world` ranks have 16 bits at most
  uint64_t elements = 0;
};

enum class CodedOp { kEncode, kExchange, kAdd, kGather, kDecode };

struct CodedStep {
  CodedOp op = CodedOp::kEncode;
  uint64_t first = 0;   // the chunk's first block in the tensor
  uint64_t blocks = 0;  // of the tensor in it, at least 1
  uint64_t part = 0;    // blocks of a part
};

struct CodedPlan {
  CodedShape shape;
  int code_width = 0;
  int sum_width = 0;
  std::vector<CodedStep> steps;
  // Staging memory: own codes, those that came, and sums. Of elements that fill their parts it is
  // less than these elements take as fp32, but for a byte a block each.
  uint64_t code_bytes = 0;  // twice
  uint64_t sum_bytes = 0;
  uint64_t sent_bytes =
      0;  // to the other ranks, by this one: a gather passes on or sends each once
};

inline CodedPlan CodedPlanFor(const CodedShape& shape, uint64_t chunk_packs = kCodedChunkPacks) {
  CodedPlan plan;
  plan.shape = shape;
  plan.code_width = LatticeWidth(shape.levels, 1);
  plan.sum_width = LatticeWidth(shape.levels, shape.world);
  const auto ranks = static_cast<uint64_t>(shape.world);
  const uint64_t blocks = LatticeBlocks(shape.elements), chunk_blocks = chunk_packs * kPackBlocks;
  for (uint64_t first = 0; first < blocks; first += chunk_blocks) {
    CodedStep step;
    step.first = first;
    step.blocks = std::min(chunk_blocks, blocks - first);
    step.part = (step.blocks / kPackBlocks + ranks - 1) / ranks * kPackBlocks;
    for (const CodedOp op : {CodedOp::kEncode, CodedOp::kExchange, CodedOp::kAdd, CodedOp::kGather,
                             CodedOp::kDecode}) {
      step.op = op;
      plan.steps.push_back(step);
    }
    const uint64_t codes = PackedBytes(step.part, plan.code_width);
    const uint64_t sums = PackedBytes(step.part, plan.sum_width);
    plan.code_bytes = std::max(plan.code_bytes, ranks * codes);
    plan.sum_bytes = std::max(plan.sum_bytes, ranks * sums);
    plan.sent_bytes += (ranks - 1) * (codes + sums);
  }
  return plan;
}

// Of an all-to-all, with one peer both ways: part `peer` of what is encoded goes, and what comes is
// part `peer` of what came. Both lie at this place of their memory.
struct CodedMessage {
  int peer = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Every rank begins with the next one, so that not all send to the same.
inline std::vector<CodedMessage> MessagesOf(const CodedPlan& plan, const CodedStep& step) {
  const uint64_t bytes = PackedBytes(step.part, plan.code_width);
  std::vector<CodedMessage> messages;
  for (int distance = 1; distance < plan.shape.world; ++distance) {
    const int peer = (plan.shape.rank + distance) % plan.shape.world;
    messages.push_back({peer, static_cast<uint64_t>(peer) * bytes, bytes});
  }
  return messages;
}

}  // namespace ringwood::cuda
