// The JSON of a safetensors header, event by event: no tree of it is ever in memory, and what the
// format does not have ends the reading.
#pragma once

#include <string>

#include "base/status.h"
#include "server/store/portable/safetensors.h"

namespace ringwood {

inline constexpr char kMetadataKey[] = "__metadata__";

// The tensors in the header's order, each with the bytes that its offsets give. Invalid says what
// is wrong. Whether they fit to each other, to their types and to the file is the caller's to
// check.
StatusOr<Safetensors> ParseSafetensorsJson(const std::string& header);

}  // namespace ringwood
