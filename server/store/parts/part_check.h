// Whether the parts of a checkpoint are whole, before a job resumes from it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/access.h"
#include "proto/store_places.h"
#include "ringwood/v1/store.pb.h"

namespace ringwood {

// Asked whether the answer is still wanted: an error is the answer then.
using GoesOn = std::function<Status()>;
using PartsVerdict = std::function<Status(const GoesOn&)>;

// Begins to have the parts of a checkpoint read, and gives what answers when they were: OK, or what
// is wrong; damage is Corrupt. Refused: a store is not among those at `places`; it is named with
// its host and the remedy. `found`: told which number the store at an address has. Any thread.
std::function<StatusOr<PartsVerdict>(const v1::CheckpointManifest& head)> AskFurtherStores(
    const std::vector<StorePlace>& places, const Access& access,
    const std::function<void(uint64_t store, const std::string& address)>& found);

}  // namespace ringwood
