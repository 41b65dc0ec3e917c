// Facts of the host on which it runs: a thin shell around the kernel, UCX and CUDA.
#pragma once

#include <map>
#include <string>

#include "doctor/facts.h"

namespace ringwood {

struct CollectRequest {
  std::string host;  // the launcher's name of it
  int slots = 1;
  std::map<std::string, std::string> build;
  std::string network_interface;  // as for a job; empty: loopback
  std::string port_range;         // empty: any
  std::string transport = "auto";
  bool trusted_fabric = false;
  std::string store;  // empty: the disk is not looked at
};

// Takes a second or two where there is a store. Blocks.
HostFacts CollectHost(const CollectRequest& request);

}  // namespace ringwood
