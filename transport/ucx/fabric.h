// The data plane of trusted fabrics: UCX active messages over TCP on one named interface.
//
// One UCX worker a Fabric, progressed by the Loop that owns it; it sleeps on the worker's event
// descriptor when idle. Everything UCX needs is set here, nothing is asked from the environment:
//   UCX_TLS=tcp, UCX_NET_DEVICES=<interface> through ucp_config_modify.
// A stranger who reaches the port can stop the process (see docs/dense.md), so any interface but
// loopback needs the operator's word that its network is private.
#pragma once

#include <memory>
#include <string>

#include "transport/fabric.h"
#include "transport/port_range.h"

namespace ringwood {

struct UcxOptions {
  std::string network_interface;  // empty = "lo"
  bool trusted_fabric = false;    // the operator declares the interface's network private
  PortRange ports = {};           // two of them for each process
};

// Any thread but the loop's own. Fabric and Transport are used and destroyed on the loop's thread.
// Denied for an interface that is not loopback without trusted_fabric.
StatusOr<std::unique_ptr<Fabric>> MakeUcxFabric(Loop* loop, const UcxOptions& options);

}  // namespace ringwood
