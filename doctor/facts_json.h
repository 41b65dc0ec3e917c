// Facts as JSON: what hosts send, and what `ringwood doctor --json` prints.
#pragma once

#include <string>

#include "base/status.h"
#include "doctor/facts.h"

namespace ringwood {

std::string ToJson(const HostFacts& host);  // one line
std::string ToJson(const LinkFacts& link);

// What is missing keeps its default, and what is not known is passed over: hosts of another version
// are to be named, not refused. Corrupt: it is no such object.
StatusOr<HostFacts> HostFromJson(const std::string& text);
StatusOr<LinkFacts> LinkFromJson(const std::string& text);

}  // namespace ringwood
