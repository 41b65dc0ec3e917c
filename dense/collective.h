// What one rank does in one dense collective, as a value: the schedule of a chunk, and how the
// tensor is cut into chunks and the chunks into slots. A pure function makes it from what all ranks
// know; the engine runs it (dense/chunks.h) and the simulator plays it (plan/predict/simulate.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dense/cut.h"
#include "dense/place.h"
#include "transport/data_type.h"
#include "transport/schedule.h"

namespace ringwood {

enum class Verb : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce };
const char* NameOf(Verb verb);  // "all-reduce", "reduce-scatter", …

// What is asked for; the same on all ranks.
struct CollectiveSpec {
  Verb verb = Verb::kAllReduce;
  DataType type = DataType::kFloat32;
  uint64_t elements = 0;      // of the whole tensor
  std::string wire = "fp32";  // of an all-reduce of float32 sums: or "bf16", "int8", "int4"
  int root = 0;               // of a broadcast or a reduce
  uint64_t chunk_bytes = 0;   // takes rings with chunks of this size; 0: chosen, with the strategy
  std::optional<Strategy> strategy = std::nullopt;  // of an all-reduce; nothing: chosen
  // Elements of each share of a reduce-scatter or all-gather, all of the tensor; empty: CutEvenly.
  std::vector<uint64_t> shares = {};
};

struct Collective {
  Verb verb = Verb::kAllReduce;
  Strategy strategy = Strategy::kRing;
  // Of this rank in every chunk; both sides leave out the steps of empty slots.
  Schedule schedule;
  DataType type = DataType::kFloat32;
  size_t elements = 0;        // of the whole tensor
  size_t chunk_elements = 1;  // of every chunk but the last
  int slots = 1;              // of every chunk
  // Empty: a chunk is a range of the tensor and its slots are ranges of it. Else slot s of all
  // chunks together is the s-th of these ranges of the tensor, and a chunk takes the next
  // chunk_elements / slots elements of each.
  std::vector<Range> shares;
  bool rounded = false;  // what is not `exact` travels as bf16
  int code_bits = 0;     // above 0: all travels as sums of codes, and slots begin with a block
  std::string reason;    // for people: why this strategy
};

// `place` says which rank; everything but the schedule is the same on all ranks. place.hosts is
// empty or complete (IsComplete).
Collective CollectiveFor(const CollectiveSpec& spec, const Place& place);

// The schedule alone; `root` counts for broadcasts and reduces only.
Schedule ScheduleFor(Verb verb, Strategy strategy, int root, const Place& place);

// How many peers a worker of every job meets: those of short and of long all-reduces, and all
// servers.
size_t FewestPeers(const Place& place);

// Chunks under way at once: one is added up while another is on the wire, and a third covers the
// time a neighbour is late. More only takes memory on the receiving side.
constexpr size_t kChunksInFlight = 4;

size_t ChunksOf(const Collective& collective);
// The elements of each slot of a chunk.
std::vector<Range> SlotsOf(const Collective& collective, size_t chunk);

// Of a step's message with a slot of `elements`.
uint64_t MessageBytes(const Collective& collective, size_t elements, const Step& step);

}  // namespace ringwood
