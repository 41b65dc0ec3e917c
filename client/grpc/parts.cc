#include "client/grpc/parts.h"

#include "absl/strings/str_format.h"
#include "client/grpc/control.h"
#include "client/grpc/store_client.h"
#include "client/grpc/update_client.h"
#include "proto/access.h"
#include "proto/token_file.h"
#include "timeline/flight_recorder.h"
#include "timeline/writer.h"
#include "transport/interface.h"
#include "transport/open_fabric.h"

namespace ringwood {

namespace {

StatusOr<std::unique_ptr<Fabric>> MakeFabric(const SessionOptions& options,
                                             const std::shared_ptr<const Credentials>& credentials,
                                             Loop* net) {
  FabricOptions fabric;
  fabric.transport = options.transport;
  if (!options.network_interface.empty()) {
    RW_ASSIGN_OR_RETURN(fabric.network_interface, ChooseInterface(options.network_interface));
  }
  fabric.trusted_fabric = options.trusted_fabric;
  RW_ASSIGN_OR_RETURN(fabric.ports, ParsePortRange(options.port_range));
  fabric.token = options.token;
  fabric.credentials = credentials;
  return OpenFabric(net, fabric);
}

// As UCX, NCCL is for networks that nobody else reaches.
Status MayUseNccl(const SessionOptions& options) {
  if (options.trusted_fabric || options.network_interface.empty()) return OkStatus();
  RW_ASSIGN_OR_RETURN(const std::string interface, ChooseInterface(options.network_interface));
  RW_ASSIGN_OR_RETURN(const bool loopback, IsLoopback(interface));
  if (loopback) return OkStatus();
  return Denied(absl::StrFormat(
      "what NCCL sends over %s is neither encrypted nor authenticated: declare the network private "
      "with --trusted-fabric (RINGWOOD_TRUSTED_FABRIC=1), or exchange from host memory",
      interface));
}

}  // namespace

StatusOr<Parts> MakeParts(const SessionOptions& given) {
  SessionOptions options = given;
  if (!options.token.empty()) options.token_file.clear();
  if (!options.token_file.empty()) {
    RW_ASSIGN_OR_RETURN(options.token, ReadTokenFile("RINGWOOD_TOKEN_FILE", options.token_file));
  }
  RW_ASSIGN_OR_RETURN(const std::shared_ptr<const Credentials> credentials,
                      OpenCredentials(options.identity));
  if (credentials != nullptr) {
    RW_RETURN_IF_ERROR(MayClaim(credentials->name(), IdentityRole::kRank, options.rank));
  }
  const Access access{options.token, credentials, options.token_file};
  Parts parts;
  parts.accelerator.ring_refused = MayUseNccl(options);
  ChunkSink* sink = nullptr;  // owned by the observers, which the session keeps to its end
  if (!options.timeline.empty()) {
    RW_ASSIGN_OR_RETURN(auto writer, TimelineWriter::Create(options.timeline));
    sink = writer.get();
    parts.observers.push_back(std::move(writer));
  }
  if (!options.flight_record.empty()) {
    RW_ASSIGN_OR_RETURN(FlightRecord record, FlightRecord::Create(options.flight_record));
    parts.observers.push_back(std::make_unique<FlightRecorder>(std::move(record)));
  }
  parts.make_fabric = [options, sink, credentials](Loop* net) -> StatusOr<std::unique_ptr<Fabric>> {
    RW_ASSIGN_OR_RETURN(auto fabric, MakeFabric(options, credentials, net));
    return sink == nullptr ? std::move(fabric) : ObserveFabric(std::move(fabric), sink);
  };
  parts.control = MakeGrpcControl(options.coordinator, access, options.coordinator_grace_seconds);
  parts.store = MakeGrpcStoreClient(options.coordinator, access);
  parts.updates = MakeGrpcUpdateClient(options.coordinator, access);
  return parts;
}

}  // namespace ringwood
