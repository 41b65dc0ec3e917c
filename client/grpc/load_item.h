// Loads one item of a checkpoint, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/status.h"
#include "client/grpc/calls.h"
#include "client/grpc/store_lines.h"

namespace ringwood {

// Small items that follow the one that was asked for, see LoadChunk.
using Following = google::protobuf::RepeatedPtrField<v1::SmallItem>;

// `take` gets the item's bytes in order, checked, exactly `item_bytes` of them; an error that it
// returns ends the load. `what` names the call in errors. `ahead` gets what came beside the item,
// each checked; without it nothing does. What is in further stores comes from there.
Status LoadItem(StoreLines* stores, Calls* calls, const v1::LoadRequest& request,
                uint64_t item_bytes, const std::function<Status(std::span<const std::byte>)>& take,
                const std::string& what, const std::function<void(Following*)>& ahead = {});

}  // namespace ringwood
