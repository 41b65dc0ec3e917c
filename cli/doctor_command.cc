#include <google/protobuf/stubs/common.h>
#include <grpcpp/version_info.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <rocksdb/version.h>
#include <ucp/api/ucp.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/version.h"
#include "launch/network.h"

namespace ringwood {
namespace {

void PrintBuild() {
  unsigned major = 0, minor = 0, release = 0;
  ::ucp_get_version(&major, &minor, &release);
  const int protobuf = GOOGLE_PROTOBUF_VERSION;
  std::printf("Ringwood  %s\n", kVersion);
  std::printf("compiler  %s\n", __VERSION__);
  std::printf("gRPC      %s\n", GRPC_CPP_VERSION_STRING);
  std::printf("protobuf  %d.%d.%d\n", protobuf / 1000000, protobuf / 1000 % 1000, protobuf % 1000);
  std::printf("RocksDB   %d.%d.%d\n", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH);
  std::printf("UCX       %u.%u.%u\n", major, minor, release);
}

void PrintInterfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return;
  std::printf("\ncards (for --network-interface)\n");
  for (ifaddrs* card = list; card != nullptr; card = card->ifa_next) {
    if (card->ifa_addr == nullptr || card->ifa_addr->sa_family != AF_INET) continue;
    const auto address = AddressOf(std::string("=") + card->ifa_name);
    const bool up = (card->ifa_flags & IFF_UP) != 0;
    std::printf("  %-12s %-16s %s%s\n", card->ifa_name,
                address.ok() ? address->c_str() : Message(address.status()).c_str(),
                up ? "up" : "down", (card->ifa_flags & IFF_LOOPBACK) != 0 ? ", loopback" : "");
  }
  ::freeifaddrs(list);
}

}  // namespace

void AddDoctorCommand(Command app, CommandContext* context) {
  Command command =
      app.Subcommand("doctor", "Show versions of what is built in, and the network interfaces");
  command.Run(context, [] {
    PrintBuild();
    PrintInterfaces();
    return OkStatus();
  });
}

}  // namespace ringwood
