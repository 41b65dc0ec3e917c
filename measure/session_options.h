// Session options from the environment that `ringwood run` sets.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "client/options/options.h"

namespace ringwood {

StatusOr<SessionOptions> SessionOptionsOf(const std::map<std::string, std::string>& environment);

}  // namespace ringwood
