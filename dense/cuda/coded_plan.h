// How a rank all-reduces device memory as codes over NCCL, as a value; dense/cuda/coded_run.h runs
// it. NCCL moves bytes only, so every rounding is that of dense/lattice/codes.h: the source's.
// Codes add up as integers, so the result has the same bits whatever hosts the ranks are on.
//
// It is a hierarchy (dense/hierarchy.h): a chunk has a slice for each rank of the largest host, and
// a slice a part for each host. On every host a slice has an agent.
//
//     encode │ exchange │ add │ exchange │ add │ exchange │ exchange │ decode
//              inside           between          between    inside
//
// A chunk runs through all of it, then the next one.
//
//   inside    each rank sends each slice to its agent on this host, which adds
//   between   the agents of a slice on all hosts exchange its parts: the one of host h adds part h,
//             and sends the sum to the others
//   inside    agents send the sums of their slices to the ranks of their host
//
// With one rank on each host there is only "between", on a single host only "inside". So a NIC
// carries one sum of its host's ranks, however many they are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "dense/hierarchy.h"
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
  explicit CodedPlanMaker(const CodedShape& shape) : hosts_(shape.hosts), levels_(shape.levels) {
    plan_.shape = shape;
    for (size_t h = 0; h < hosts_.size(); ++h) {
      const auto found = std::find(hosts_[h].begin(), hosts_[h].end(), shape.rank);
      if (found == hosts_[h].end()) continue;
      host_ = h;
      // Every rank begins with the next one, so that not all send to the same.
      neighbours_.assign(found + 1, hosts_[h].end());
      neighbours_.insert(neighbours_.end(), hosts_[h].begin(), found);
    }
    mine_ = SlicesOf(shape.rank);
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
  // Slices whose agent a rank of this host is: they follow each other.
  struct Slices {
    uint64_t first = 0, count = 0;
  };
  Slices SlicesOf(int rank) const {
    Slices slices;
    for (int s = 0; s < LargestHost(hosts_); ++s) {
      if (Agent(hosts_, static_cast<int>(host_), s) != rank) continue;
      if (slices.count++ == 0) slices.first = static_cast<uint64_t>(s);
    }
    return slices;
  }
  int AgentOf(uint64_t host, uint64_t slice) const {
    return Agent(hosts_, static_cast<int>(host), static_cast<int>(slice));
  }

  // Of `parts` parts of the chunk.
  uint64_t Bytes(int width, uint64_t parts) const {
    return PackedBytes(parts * part_packs_ * kPackBlocks, width);
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
  void Send(CodedStep& step, const CodedMessage& message) {
    step.sends.push_back(message);
    plan_.sent_bytes += message.bytes;
  }

  void AddChunk(uint64_t first, uint64_t blocks) {
    const uint64_t hosts = hosts_.size(), slices = static_cast<uint64_t>(LargestHost(hosts_));
    const uint64_t parts = slices * hosts;
    part_packs_ = (blocks / kPackBlocks + parts - 1) / parts;
    chunk_ = {};
    chunk_.first = first;
    chunk_.blocks = blocks;
    end_ = 0;
    const StagedSum codes = {Take(Bytes(Width(1), parts)), Width(1)};
    CodedStep& encode = Append(CodedOp::kEncode);
    encode.packs = parts * part_packs_;
    encode.result = codes;
    StagedSum sums = {codes.at, Width(RanksOf(hosts_))};  // of a rank alone: its codes
    if (parts > 1) sums.at = Take(Bytes(sums.width, parts));
    // Of this rank's slices, by all ranks of this host.
    StagedSum here = codes;
    if (slices > 1) {
      here = {sums.at + Bytes(sums.width, mine_.first * hosts), sums.width};
      if (hosts > 1) {
        here.width = Width(static_cast<int>(slices));
        here.at = Take(Bytes(here.width, mine_.count * hosts));
      }
      AddInside(codes, here);
    }
    if (hosts > 1) ExchangeBetween(here, sums);
    if (slices > 1) GatherInside(sums);
    Append(CodedOp::kDecode).result = sums;
  }

  void AddInside(const StagedSum& codes, const StagedSum& here) {
    const uint64_t hosts = hosts_.size(), mine = Bytes(codes.width, mine_.count * hosts);
    const uint64_t came = Take(neighbours_.size() * mine);
    CodedStep& exchange = Append(CodedOp::kExchange);
    for (size_t i = 0; i < neighbours_.size(); ++i) {
      const Slices theirs = SlicesOf(neighbours_[i]);
      Send(exchange, {neighbours_[i], codes.at + Bytes(codes.width, theirs.first * hosts),
                      Bytes(codes.width, theirs.count * hosts)});
      exchange.receives.push_back({neighbours_[i], came + i * mine, mine});
    }
    CodedStep& add = Append(CodedOp::kAdd);
    add.own = codes.at + Bytes(codes.width, mine_.first * hosts);
    add.rest = came;
    add.others = static_cast<int>(neighbours_.size());
    add.width = codes.width;
    add.packs = mine_.count * hosts * part_packs_;
    add.result = here;
  }

  void ExchangeBetween(const StagedSum& here, const StagedSum& sums) {
    const uint64_t hosts = hosts_.size();
    const uint64_t part = Bytes(here.width, 1), summed = Bytes(sums.width, 1);
    const uint64_t came = Take(mine_.count * (hosts - 1) * part);
    CodedStep exchange, gather;
    for (uint64_t distance = 1; distance < hosts; ++distance) {
      const uint64_t host = (host_ + distance) % hosts;
      for (uint64_t s = 0; s < mine_.count; ++s) {
        const uint64_t slice = mine_.first + s;
        const int agent = AgentOf(host, slice);
        Send(exchange, {agent, here.at + (s * hosts + host) * part, part});
        exchange.receives.push_back({agent, came + (s * (hosts - 1) + distance - 1) * part, part});
        Send(gather, {agent, sums.at + (slice * hosts + host_) * summed, summed});
        gather.receives.push_back({agent, sums.at + (slice * hosts + host) * summed, summed});
      }
    }
    const auto append = [&](CodedStep& messages) {
      CodedStep& step = Append(CodedOp::kExchange);
      step.sends = std::move(messages.sends);
      step.receives = std::move(messages.receives);
    };
    append(exchange);
    for (uint64_t s = 0; s < mine_.count; ++s) {
      CodedStep& add = Append(CodedOp::kAdd);
      add.own = here.at + (s * hosts + host_) * part;
      add.rest = came + s * (hosts - 1) * part;
      add.others = static_cast<int>(hosts) - 1;
      add.width = here.width;
      add.packs = part_packs_;
      add.result = {sums.at + ((mine_.first + s) * hosts + host_) * summed, sums.width};
    }
    append(gather);
  }

  void GatherInside(const StagedSum& sums) {
    const uint64_t hosts = hosts_.size();
    const auto message = [&](int peer, const Slices& slices) {
      return CodedMessage{peer, sums.at + Bytes(sums.width, slices.first * hosts),
                          Bytes(sums.width, slices.count * hosts)};
    };
    CodedStep& step = Append(CodedOp::kExchange);
    for (const int neighbour : neighbours_) {
      Send(step, message(neighbour, mine_));
      step.receives.push_back(message(neighbour, SlicesOf(neighbour)));
    }
  }

  int Width(int terms) const { return LatticeWidth(levels_, terms); }

  const Hosts& hosts_;
  const int levels_;
  uint64_t host_ = 0;
  std::vector<int> neighbours_;  // the other ranks of this host, beginning after this one
  Slices mine_;
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
