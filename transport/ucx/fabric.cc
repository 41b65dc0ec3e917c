#include "transport/ucx/fabric.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/random.h"
#include "transport/interface.h"
#include "transport/node_fabric.h"
#include "transport/ucx/node.h"

namespace ringwood {
namespace {

constexpr size_t kPorts = 2;          // the listener's, and one of UCX's own
constexpr double kStartSeconds = 20;  // UCX looks at every device of the machine when it starts

}  // namespace

StatusOr<std::unique_ptr<Fabric>> MakeUcxFabric(Loop* loop, const UcxOptions& options) {
  const std::string interface =
      options.network_interface.empty() ? "lo" : options.network_interface;
  RW_ASSIGN_OR_RETURN(const std::string address, InterfaceAddress(interface));
  RW_ASSIGN_OR_RETURN(const bool loopback, IsLoopback(interface));
  if (!loopback && !options.trusted_fabric) {
    return Denied(absl::StrFormat(
        "the UCX data plane on %s (%s) is neither encrypted nor authenticated: declare the network "
        "private with --trusted-fabric, or choose another transport",
        interface, address));
  }
  auto node = std::make_shared<std::shared_ptr<UcxNode>>();
  RW_RETURN_IF_ERROR(loop->Call(
      [loop, interface, address, ports = options.ports, node]() -> Status {
        RW_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker,
                            UcxWorker::Make(interface, address, ports, kPorts, Unpredictable()));
        auto made = std::make_shared<UcxNode>(loop, std::move(worker));
        RW_RETURN_IF_ERROR(made->Start(address, ports));
        *node = std::move(made);
        return OkStatus();
      },
      Seconds(kStartSeconds)));
  return std::unique_ptr<Fabric>(std::make_unique<NodeFabric<UcxNode>>(
      std::move(*node), absl::StrFormat("%s %s, tcp by UCX", address, interface)));
}

}  // namespace ringwood
