// How busy this host's cores are: a replay that keeps all of them busy measures the cores, not the
// network.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

// Busy seconds of all cores together since the machine started, the kernel's included, from
// /proc/stat. In steps of 1/100 s.
StatusOr<double> BusySeconds();

// The same of that file's text.
StatusOr<double> ParseBusySeconds(const std::string& text);

}  // namespace ringwood
