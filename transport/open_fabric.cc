#include "transport/open_fabric.h"

#include "transport/grpc/fabric.h"
#include "transport/interface.h"
#include "transport/ucx/fabric.h"

namespace ringwood {

Status CheckTransport(const std::string& transport) {
  if (transport == "ucx" || transport == "grpc" || transport == "auto") return OkStatus();
  return Invalid("the transport '" + transport + "' is none of ucx, grpc and auto");
}

StatusOr<std::unique_ptr<Fabric>> OpenFabric(Loop* loop, const FabricOptions& options) {
  RW_RETURN_IF_ERROR(CheckTransport(options.transport));
  bool ucx = options.transport == "ucx";
  if (options.transport == "auto") {
    ucx = options.trusted_fabric;
    if (!ucx && options.credentials == nullptr) {
      RW_ASSIGN_OR_RETURN(
          ucx, IsLoopback(options.network_interface.empty() ? "lo" : options.network_interface));
    }
  }
  if (ucx) {
    return MakeUcxFabric(loop, {options.network_interface, options.trusted_fabric, options.ports});
  }
  GrpcOptions grpc;
  grpc.network_interface = options.network_interface;
  grpc.trusted_fabric = options.trusted_fabric;
  grpc.ports = options.ports;
  grpc.token = options.token;
  grpc.credentials = options.credentials;
  return MakeGrpcFabric(loop, grpc);
}

}  // namespace ringwood
