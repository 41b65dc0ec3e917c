// The hosts that flags name.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launch/hosts.h"

namespace ringwood {

// Those of -H, or those of the file of --hostfile; without either this machine. Invalid: both.
StatusOr<std::vector<Host>> HostsGiven(const std::string& hosts, const std::string& host_file);

}  // namespace ringwood
