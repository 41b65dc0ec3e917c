#include <ifaddrs.h>
#include <net/if.h>

#include <cstdio>

#include "cli/command.h"
#include "launch/network.h"

namespace ringwood {
namespace {

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
  command.Run(context, [context] {
    std::printf("%s\n", BuildText(context->build).c_str());
    PrintInterfaces();
    return OkStatus();
  });
}

}  // namespace ringwood
