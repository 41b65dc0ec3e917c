// Loads one item of a checkpoint, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/status.h"
#include "client/grpc/calls.h"
#include "ringwood/v1/store.grpc.pb.h"

namespace ringwood {

// `take` gets the item's bytes in order, checked, exactly `item_bytes` of them; an error that it
// returns ends the load. `what` names the call in errors.
Status LoadItem(v1::Store::Stub* store, Calls* calls, const v1::LoadRequest& request,
                uint64_t item_bytes, const std::function<Status(std::span<const std::byte>)>& take,
                const std::string& what);

}  // namespace ringwood
