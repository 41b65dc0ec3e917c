// The record of an epoch as every CoordStore keeps it, wherever that is.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "ringwood/v1/state.pb.h"

namespace ringwood {

// Refused unless `record` is of a newer epoch than the one that is kept, or the end of that one:
// without members.
Status CheckNewer(const v1::EpochRecord& kept, const v1::EpochRecord& record);

// HMAC-SHA-256 of an incarnation under `key`: enough to compare with, and of no use to who reads
// what is kept.
std::string IncarnationHash(uint64_t incarnation, const std::string& key);

// The record with hashes in place of incarnations: only this leaves the process.
v1::EpochRecord WithoutIncarnations(v1::EpochRecord record, const std::string& key);

}  // namespace ringwood
