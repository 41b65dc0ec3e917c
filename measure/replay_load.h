// How busy this host's cores are: a replay that keeps all of them busy measures the cores, not the
// network.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

// Seconds that all cores have worked since the machine started, together, kernel included, in
// hundredths. From /proc/stat.
StatusOr<double> BusySeconds();

// The same of that file's text.
StatusOr<double> ParseBusySeconds(const std::string& text);

}  // namespace ringwood
