#include "client/grpc/parts.h"

#include "client/grpc/control.h"
#include "client/grpc/store_client.h"
#include "transport/interface.h"
#include "transport/ucx/fabric.h"

namespace ringwood {

Parts MakeParts(const SessionOptions& options) {
  Parts parts;
  parts.make_fabric = [options](Loop* net) -> StatusOr<std::unique_ptr<Fabric>> {
    UcxOptions ucx;
    if (!options.network_interface.empty()) {
      RW_ASSIGN_OR_RETURN(ucx.network_interface, ChooseInterface(options.network_interface));
    }
    ucx.trusted_fabric = options.trusted_fabric;
    return MakeUcxFabric(net, ucx);
  };
  parts.control = MakeGrpcControl(options.coordinator);
  parts.store = MakeGrpcStoreClient(options.coordinator);
  return parts;
}

}  // namespace ringwood
