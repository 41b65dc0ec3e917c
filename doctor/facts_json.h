// Facts as JSON: what hosts send, and what `ringwood doctor --json` prints.
#pragma once

#include <string>

#include "base/status.h"
#include "doctor/facts.h"

namespace ringwood {

std::string ToJson(const HostFacts& host);  // one line
std::string ToJson(const LinkFacts& link);

// Missing members keep their defaults and unknown ones are ignored, so that a host of another
// version can be named. Corrupt: the text is no such object.
StatusOr<HostFacts> HostFromJson(const std::string& text);
StatusOr<LinkFacts> LinkFromJson(const std::string& text);

}  // namespace ringwood
