#include "sparse/reducer/route.h"

namespace ringwood {

ReducerRoute RouteOf(const ReducerPart& part, const Schedule& schedule) {
  ReducerRoute route;
  for (const Step& step : schedule) {
    const TreeSlot slot = SlotOfNumber(step.slot, part.chunks);
    if (slot.shard != part.shard) continue;
    if (step.op == Op::kReceiveReduce) {
      route.gather.push_back(step);
    } else if (slot.kind == TreeSlot::Kind::kEntries) {
      route.up.push_back(step);
    } else {
      if (route.relays.empty() || route.relays.back().slot != slot) route.relays.push_back({slot});
      Relay& relay = route.relays.back();
      if (step.op == Op::kReceive) {
        relay.from = step.peer;
      } else {
        relay.to.push_back(step.peer);
      }
    }
  }
  if (part.agreeing > 0) route.level = LevelSchedule(part.shape, part.shard);
  return route;
}

}  // namespace ringwood
