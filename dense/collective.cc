#include "dense/collective.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "dense/broadcast.h"
#include "dense/direct.h"
#include "dense/doubling.h"
#include "dense/hierarchy.h"
#include "dense/ring.h"

namespace ringwood {
namespace {

// One message of a broadcast: long enough that the cost of a message (about 50 us of both ends'
// processors) is small beside its time on the wire (2 ms at 1 Gbit/s).
constexpr uint64_t kMessageBytes = 256 << 10;

// Of one chunk of a hierarchy: the ranks of a host send all of it to its agents at once, four
// chunks together. What an agent has not asked for yet stays far below the 64 MiB that a transport
// keeps.
constexpr uint64_t kHierarchyChunkBytes = 8 << 20;

uint64_t BytesOf(const CollectiveSpec& spec) { return spec.elements * SizeOf(spec.type); }

Choice Chosen(const CollectiveSpec& spec, const Place& place) {
  if (spec.verb == Verb::kBroadcast) {
    if (BytesOf(spec) <= kMessageBytes) return {Strategy::kBinomialTree, 0, "short: fewest hops"};
    return {Strategy::kChain, 0, "long: every NIC sends it once"};
  }
  if (spec.chunk_bytes != 0) return {Strategy::kRing, 0, "chunks of a given size"};
  if (spec.verb != Verb::kAllReduce) {
    if (BytesOf(spec) <= kMaxDirectBytes) return {Strategy::kDirect, 0, "short: two hops at most"};
    return {Strategy::kRing, 0, "longer than direct exchange may be"};
  }
  if (spec.strategy) return {*spec.strategy, 0, "as asked for"};
  return ChooseSchedule({.bytes = BytesOf(spec),
                         .world = place.world,
                         .cost = place.cost,
                         .ring_ratio = spec.bf16 ? 0.5 : 1,
                         .hosts = place.hosts.empty() ? nullptr : &place.hosts});
}

// A ring in the order of the hosts: as few neighbours as can be are on different ones.
Schedule RingByHosts(int rank, const Hosts& hosts) {
  const std::vector<int> order = HostOrder(hosts);
  const auto place = std::find(order.begin(), order.end(), rank) - order.begin();
  Schedule schedule = RingAllReduce(static_cast<int>(place), static_cast<int>(order.size()));
  for (Step& step : schedule) step.peer = order[step.peer];
  return schedule;
}

// A ring of dense/ring.h leaves rank r with slot r+1; as halves it is to be share r.
Schedule Shifted(Schedule schedule, int world) {
  for (Step& step : schedule) step.slot = (step.slot + world - 1) % world;
  return schedule;
}

Schedule AllReduceSchedule(Strategy strategy, const Place& place) {
  switch (strategy) {
    case Strategy::kHierarchy:
      return HierarchicalAllReduce(place.rank,
                                   place.hosts.empty() ? OneEach(place.world) : place.hosts);
    case Strategy::kRecursiveDoubling:
      return RecursiveDoubling(place.rank, place.world);
    case Strategy::kDirect:
      return DirectExchange(place.rank, place.world);
    default:
      if (place.hosts.empty()) return RingAllReduce(place.rank, place.world);
      return RingByHosts(place.rank, place.hosts);
  }
}

// Bytes of a chunk where messages have the length that suits a ring; `longest` at most, for what is
// kept of it by those that are not ready for it.
uint64_t ChunkBytes(const CollectiveSpec& spec, const Collective& made, uint64_t longest) {
  if (spec.chunk_bytes != 0) return spec.chunk_bytes;
  // The messages of a chunk are as long with bf16 as with fp32.
  const uint64_t ratio = made.rounded ? 2 : 1;
  const uint64_t message = RingMessageBytes(BytesOf(spec) / ratio, made.slots);
  return std::min(message * static_cast<uint64_t>(made.slots) * ratio, longest);
}

// Slots and chunks.
void Cut(const CollectiveSpec& spec, const Place& place, Collective* made) {
  made->slots = place.world;
  made->by_share = spec.verb == Verb::kReduceScatter || spec.verb == Verb::kAllGather;
  uint64_t chunk_bytes = BytesOf(spec);
  switch (made->strategy) {
    case Strategy::kRing:
      made->rounded = spec.bf16 && place.world > 1;
      chunk_bytes = ChunkBytes(spec, *made, UINT64_MAX);
      break;
    case Strategy::kHierarchy:
      if (!place.hosts.empty()) made->slots = HierarchySlots(place.hosts);
      made->rounded = spec.bf16 && place.hosts.size() != 1 && place.world > 1;
      chunk_bytes = ChunkBytes(spec, *made, kHierarchyChunkBytes);
      break;
    case Strategy::kDirect:
      // Every share whole; of single bytes what does not divide evenly is a second chunk.
      if (made->by_share) chunk_bytes *= SizeOf(spec.type);
      break;
    case Strategy::kRecursiveDoubling:
      made->slots = 1;
      break;
    case Strategy::kBinomialTree:
    case Strategy::kChain:
      made->slots = 1;
      chunk_bytes = kMessageBytes;
      break;
  }
  made->chunk_elements = std::max<uint64_t>(1, chunk_bytes / SizeOf(spec.type));
}

// Of each share: what a chunk takes of it.
size_t PartElements(const Collective& collective) {
  return std::max<size_t>(1, collective.chunk_elements / static_cast<size_t>(collective.slots));
}

}  // namespace

const char* NameOf(Verb verb) {
  constexpr const char* kNames[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast"};
  return kNames[static_cast<size_t>(verb)];
}

Collective CollectiveFor(const CollectiveSpec& spec, const Place& place) {
  RW_CHECK(place.world > 0 && place.rank >= 0 && place.rank < place.world);
  Choice choice = Chosen(spec, place);
  Collective made;
  made.verb = spec.verb;
  made.strategy = choice.strategy;
  made.type = spec.type;
  made.elements = spec.elements;
  made.reason = std::move(choice.reason);
  Cut(spec, place, &made);
  made.schedule = ScheduleFor(spec.verb, made.strategy, spec.root, place);
  return made;
}

size_t FewestPeers(const Place& place) {
  std::set<int> peers;
  for (const Strategy strategy : {Strategy::kRing, Strategy::kRecursiveDoubling}) {
    for (const Step& step : AllReduceSchedule(strategy, place)) peers.insert(step.peer);
  }
  return peers.size() + static_cast<size_t>(place.servers);
}

Schedule ScheduleFor(Verb verb, Strategy strategy, int root, const Place& place) {
  const int rank = place.rank, world = place.world;
  const bool direct = strategy == Strategy::kDirect;
  switch (verb) {
    case Verb::kAllReduce:
      return AllReduceSchedule(strategy, place);
    case Verb::kReduceScatter:
      return direct ? DirectReduceScatter(rank, world)
                    : Shifted(RingReduceScatter(rank, world), world);
    case Verb::kAllGather:
      return direct ? DirectAllGather(rank, world) : Shifted(RingAllGather(rank, world), world);
    case Verb::kBroadcast:
      return strategy == Strategy::kChain ? BroadcastChain(rank, world, root)
                                          : BroadcastTree(rank, world, root);
  }
  return {};
}

size_t ChunksOf(const Collective& collective) {
  const bool by_share = collective.by_share;
  const size_t whole =
      by_share ? EvenPart(collective.elements, collective.slots, 0).count : collective.elements;
  const size_t chunk = by_share ? PartElements(collective) : collective.chunk_elements;
  return (whole + chunk - 1) / chunk;
}

std::vector<Range> SlotsOf(const Collective& collective, size_t chunk) {
  if (!collective.by_share) {
    const size_t begin = chunk * collective.chunk_elements;
    const size_t count = std::min(collective.chunk_elements, collective.elements - begin);
    std::vector<Range> slots = CutEvenly(count, collective.slots);
    for (Range& slot : slots) slot.begin += begin;
    return slots;
  }
  const size_t part = PartElements(collective);
  std::vector<Range> slots = CutEvenly(collective.elements, collective.slots);
  for (Range& slot : slots) {
    const size_t begin = std::min(chunk * part, slot.count);
    slot = {slot.begin + begin, std::min(part, slot.count - begin)};
  }
  return slots;
}

DataType WireTypeOf(const Collective& collective, bool exact) {
  return collective.rounded && !exact ? DataType::kBFloat16 : collective.type;
}

}  // namespace ringwood
