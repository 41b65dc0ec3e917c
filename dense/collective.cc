#include "dense/collective.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "dense/broadcast.h"
#include "dense/direct.h"
#include "dense/doubling.h"
#include "dense/hierarchy.h"
#include "dense/lattice/codes.h"
#include "dense/ring.h"

namespace ringwood {
namespace {

// One message of a broadcast: long enough that the cost of a message (about 50 us of both ends'
// processors) is small beside its time on the wire (2 ms at 1 Gbit/s).
constexpr uint64_t kMessageBytes = 256 << 10;

// Of one chunk of a hierarchy: a rank sends an agent of its host up to two thirds of it at once, of
// kChunksInFlight chunks of kRingsAtOnce groups. What the agent has not asked for yet stays below
// the 64 MiB that a transport keeps.
constexpr uint64_t kHierarchyChunkBytes = 4 << 20;

uint64_t BytesOf(const CollectiveSpec& spec) { return spec.elements * SizeOf(spec.type); }

Choice Chosen(const CollectiveSpec& spec, const Place& place) {
  if (spec.verb == Verb::kBroadcast || spec.verb == Verb::kReduce) {
    if (BytesOf(spec) <= kMessageBytes) return {Strategy::kBinomialTree, 0, "short: fewest hops"};
    return {Strategy::kChain, 0, "long: every NIC sends it once"};
  }
  if (spec.chunk_bytes != 0) return {Strategy::kRing, 0, "chunks of a given size"};
  if (spec.verb != Verb::kAllReduce) {
    if (BytesOf(spec) <= kMaxDirectBytes) return {Strategy::kDirect, 0, "short: two hops at most"};
    if (place.hosts.size() > 1 && LargestHost(place.hosts) > 1) {
      return {Strategy::kHierarchy, 0, "long: a NIC carries one copy of its host's"};
    }
    return {Strategy::kRing, 0, "longer than direct exchange may be"};
  }
  if (spec.strategy) return {*spec.strategy, 0, "as asked for"};
  return ChooseSchedule({.bytes = BytesOf(spec),
                         .world = place.world,
                         .cost = place.cost,
                         .wire = spec.wire,
                         .hosts = place.hosts.empty() ? nullptr : &place.hosts});
}

// A schedule of the ranks in another order: peer p is `order[p]`.
Schedule Among(const std::vector<int>& order, Schedule schedule) {
  for (Step& step : schedule) step.peer = order[step.peer];
  return schedule;
}
int PlaceIn(const std::vector<int>& order, int rank) {
  return static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
}

// A ring in the order of the hosts: as few neighbours as can be are on different ones.
Schedule RingByHosts(int rank, const Hosts& hosts) {
  const std::vector<int> order = HostOrder(hosts);
  return Among(order, RingAllReduce(PlaceIn(order, rank), static_cast<int>(order.size())));
}

// The root, the ranks after it on its host, then host after host, in the order of their numbers.
Schedule BroadcastByHosts(Strategy strategy, int root, const Place& place) {
  const auto of = strategy == Strategy::kChain ? BroadcastChain : BroadcastTree;
  if (place.hosts.empty()) return of(place.rank, place.world, root);
  Hosts hosts = place.hosts;
  std::rotate(hosts.begin(), hosts.begin() + HostOf(hosts, root), hosts.end());
  hosts[0] = NeighboursOf(hosts, root);
  hosts[0].insert(hosts[0].begin(), root);
  const std::vector<int> order = HostOrder(hosts);
  return Among(order, of(PlaceIn(order, place.rank), place.world, 0));
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

// What is sent is received and the other way round, from the end to the beginning: a broadcast
// becomes a reduce.
Schedule Mirrored(Schedule schedule) {
  std::reverse(schedule.begin(), schedule.end());
  for (Step& step : schedule) {
    step.op = step.op == Op::kSend ? Op::kReceiveReduce : Op::kSend;
  }
  return schedule;
}

// Bytes of the tensor for one of the longest messages, those of the result.
double ShorterBy(const Collective& made, int world) {
  if (made.code_bits == 0) return made.rounded ? 2 : 1;
  const int width = LatticeWidth(LatticeLevels(made.code_bits), world);
  return static_cast<double>(kLatticeBlock * sizeof(float)) /
         static_cast<double>(PackedBytes(1, width));
}

// Bytes of a chunk where messages have the length that suits a ring, as they travel; `longest` at
// most, for what is kept of it by those that are not ready for it.
uint64_t ChunkBytes(const CollectiveSpec& spec, const Collective& made, int world,
                    uint64_t longest) {
  if (spec.chunk_bytes != 0) return spec.chunk_bytes;
  const double ratio = ShorterBy(made, world);
  const auto bytes = static_cast<uint64_t>(static_cast<double>(BytesOf(spec)) / ratio);
  const double message = static_cast<double>(RingMessageBytes(bytes, made.slots));
  return std::min(static_cast<uint64_t>(message * made.slots * ratio), longest);
}

// Elements that stay together in one slot.
size_t UnitOf(const Collective& collective) { return collective.code_bits == 0 ? 1 : kLatticePack; }

// Slots and chunks.
void Cut(const CollectiveSpec& spec, const Place& place, Collective* made) {
  made->slots = place.world;
  made->code_bits = place.world > 1 ? CodeBits(spec.wire) : 0;
  const bool by_share = spec.verb == Verb::kReduceScatter || spec.verb == Verb::kAllGather;
  if (by_share) {
    made->shares = spec.shares.empty() ? CutEvenly(spec.elements, place.world) : CutBy(spec.shares);
  }
  uint64_t chunk_bytes = BytesOf(spec);
  switch (made->strategy) {
    case Strategy::kRing:
      made->rounded = spec.wire == "bf16" && place.world > 1;
      chunk_bytes = ChunkBytes(spec, *made, place.world, UINT64_MAX);
      break;
    case Strategy::kHierarchy:
      if (!place.hosts.empty() && !by_share) made->slots = HierarchySlots(place.hosts);
      made->rounded = spec.wire == "bf16" && place.hosts.size() != 1 && place.world > 1;
      chunk_bytes = ChunkBytes(spec, *made, place.world, kHierarchyChunkBytes);
      break;
    case Strategy::kDirect:
      // Every share whole; of single bytes what does not divide evenly is a second chunk.
      if (by_share) chunk_bytes *= SizeOf(spec.type);
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
  const uint64_t unit = UnitOf(*made);
  made->chunk_elements = std::max<uint64_t>(1, chunk_bytes / SizeOf(spec.type) / unit) * unit;
  // Whole: the unit at its end, too.
  if (chunk_bytes == BytesOf(spec)) {
    made->chunk_elements = std::max<uint64_t>(made->chunk_elements, spec.elements);
  }
}

// Of each share: what a chunk takes of it.
size_t PartElements(const Collective& collective) {
  return std::max<size_t>(1, collective.chunk_elements / static_cast<size_t>(collective.slots));
}

}  // namespace

const char* NameOf(Verb verb) {
  constexpr const char* kNames[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                    "reduce"};
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
  for (Step& step : made.schedule) step.peer = NodeOf(place, step.peer);
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
  const bool direct = strategy == Strategy::kDirect, by_host = strategy == Strategy::kHierarchy;
  switch (verb) {
    case Verb::kAllReduce:
      return AllReduceSchedule(strategy, place);
    case Verb::kReduceScatter:
      if (by_host) return HierarchicalReduceScatter(rank, place.hosts);
      return direct ? DirectReduceScatter(rank, world)
                    : Shifted(RingReduceScatter(rank, world), world);
    case Verb::kAllGather:
      if (by_host) return HierarchicalAllGather(rank, place.hosts);
      return direct ? DirectAllGather(rank, world) : Shifted(RingAllGather(rank, world), world);
    case Verb::kBroadcast:
      return BroadcastByHosts(strategy, root, place);
    case Verb::kReduce:
      return Mirrored(ScheduleFor(Verb::kBroadcast, strategy, root, place));
  }
  return {};
}

size_t ChunksOf(const Collective& collective) {
  size_t whole = collective.elements, chunk = collective.chunk_elements;
  if (!collective.shares.empty()) {
    whole = 0;
    for (const Range& share : collective.shares) whole = std::max(whole, share.count);
    chunk = PartElements(collective);
  }
  return (whole + chunk - 1) / chunk;
}

std::vector<Range> SlotsOf(const Collective& collective, size_t chunk) {
  if (collective.shares.empty()) {
    const size_t begin = chunk * collective.chunk_elements;
    const size_t count = std::min(collective.chunk_elements, collective.elements - begin);
    const size_t unit = UnitOf(collective);
    std::vector<Range> slots = CutEvenly((count + unit - 1) / unit, collective.slots);
    for (Range& slot : slots) {
      const size_t first = std::min(slot.begin * unit, count);
      slot = {begin + first, std::min(slot.count * unit, count - first)};
    }
    return slots;
  }
  const size_t part = PartElements(collective);
  std::vector<Range> slots = collective.shares;
  for (Range& slot : slots) {
    const size_t begin = std::min(chunk * part, slot.count);
    slot = {slot.begin + begin, std::min(part, slot.count - begin)};
  }
  return slots;
}

uint64_t MessageBytes(const Collective& collective, size_t elements, const Step& step) {
  if (collective.code_bits == 0) {
    return elements *
           SizeOf(collective.rounded && !step.exact ? DataType::kBFloat16 : collective.type);
  }
  return PackedBytes(LatticeBlocks(elements),
                     LatticeWidth(LatticeLevels(collective.code_bits), step.terms));
}

}  // namespace ringwood
