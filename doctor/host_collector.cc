#include "doctor/host_collector.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "base/cuda/device.h"
#include "base/loop.h"
#include "base/net/socket_address.h"
#include "dense/cuda/device_support.h"
#include "doctor/disk_meter.h"
#include "doctor/kernel_text.h"
#include "transport/interface.h"
#include "transport/open_fabric.h"

namespace ringwood {
namespace {

constexpr size_t kMostListed = 64;  // interfaces, routes: a host of containers has hundreds
constexpr double kClosingSeconds = 10;
constexpr char kRanksThread[] = "rw-beat\n";  // every rank has one, in Python or not

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

double NumberOf(const std::string& path) {
  double number = 0;
  std::ifstream(path) >> number;
  return number;
}

InterfaceFacts FactsOf(const ifaddrs& nic) {
  InterfaceFacts facts;
  facts.name = nic.ifa_name;
  facts.up = (nic.ifa_flags & IFF_UP) != 0;
  facts.loopback = (nic.ifa_flags & IFF_LOOPBACK) != 0;
  const std::string folder = "/sys/class/net/" + facts.name;
  facts.mtu = static_cast<int>(NumberOf(folder + "/mtu"));
  std::error_code error;
  if (std::filesystem::exists(folder + "/device", error)) {
    facts.bits_per_second = std::max(0.0, NumberOf(folder + "/speed")) * 1e6;
  }
  facts.address = SocketAddress::Of(nic.ifa_addr).ip();
  if (nic.ifa_netmask != nullptr) facts.prefix = SocketAddress::Of(nic.ifa_netmask).prefix();
  return facts;
}

// IPv4 addresses, and IPv6 addresses of interfaces that have no IPv4 one.
void CollectInterfaces(const ifaddrs* list, int family, HostFacts* facts) {
  for (const ifaddrs* nic = list; nic != nullptr; nic = nic->ifa_next) {
    if (nic->ifa_addr == nullptr || nic->ifa_addr->sa_family != family) continue;
    if (SocketAddress::Of(nic->ifa_addr).is_link_local()) continue;
    const auto same = [nic](const InterfaceFacts& known) { return known.name == nic->ifa_name; };
    const std::vector<InterfaceFacts>& known = facts->interfaces;
    if (family == AF_INET6 && std::any_of(known.begin(), known.end(), same)) continue;
    if (known.size() < kMostListed) facts->interfaces.push_back(FactsOf(*nic));
  }
}

void CollectInterfaces(HostFacts* facts) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return;
  CollectInterfaces(list, AF_INET, facts);
  CollectInterfaces(list, AF_INET6, facts);
  ::freeifaddrs(list);
  facts->routes = ParseRoutes(TextOf("/proc/net/route"));
  for (RouteFacts& route : ParseRoutes6(TextOf("/proc/net/ipv6_route"))) {
    facts->routes.push_back(std::move(route));
  }
  if (facts->routes.size() > kMostListed) facts->routes.resize(kMostListed);
}

void CollectPlace(const CollectRequest& request, HostFacts* facts) {
  const std::string& wanted = request.network_interface;
  const auto name =
      wanted.empty() ? StatusOr<std::string>(std::string("lo")) : ChooseInterface(wanted);
  const auto address = name.ok() ? InterfaceAddress(*name) : name;
  facts->interface_error = Message(address.status());
  if (!address.ok()) return;
  facts->interface_name = *name;
  facts->address = *address;
}

// UCX is tried on the interface, as a rank would open it. gRPC needs nothing that is not
// tried elsewhere.
void CollectTransport(const CollectRequest& request, HostFacts* facts) {
  if (facts->address.empty()) return;
  const auto loopback = IsLoopback(facts->interface_name);
  facts->private_network = request.trusted_fabric || (loopback.ok() && *loopback);
  const bool ucx =
      request.transport == "auto" ? facts->private_network : request.transport == "ucx";
  facts->transport = ucx ? "ucx" : "grpc";
  if (!ucx) return;
  const auto ports = ParsePortRange(request.port_range);
  if (!ports.ok()) return;  // said of the ports
  FabricOptions options;
  options.transport = "ucx";
  options.network_interface = facts->interface_name;
  options.trusted_fabric = true;  // nobody is told the address
  options.ports = *ports;
  Loop loop("rw-doctor");
  StatusOr<std::unique_ptr<Fabric>> fabric = OpenFabric(&loop, options);
  facts->transport_error = Message(fabric.status());
  if (!fabric.ok()) return;
  auto last = std::make_shared<std::unique_ptr<Fabric>>(*std::move(fabric));
  (void)loop.Call(
      [last] {
        last->reset();
        return OkStatus();
      },
      Seconds(kClosingSeconds));
}

void CollectPorts(const CollectRequest& request, HostFacts* facts) {
  const auto range = ParsePortRange(request.port_range);
  if (!range.ok()) {
    facts->ports.range = request.port_range;
    facts->ports.error = Message(range.status());
    return;
  }
  if (range->any()) return;
  facts->ports = OutgoingPorts(*range, TextOf("/proc/sys/net/ipv4/ip_local_port_range"),
                               TextOf("/proc/sys/net/ipv4/ip_local_reserved_ports"));
  const std::string address = facts->address.empty() ? "0.0.0.0" : facts->address;
  for (int port = range->first; port <= range->last; ++port) {
    facts->ports.free += IsFree(address, static_cast<uint16_t>(port)) ? 1 : 0;
  }
}

// Processes with a session, as far as this user may see them. They may end meanwhile.
int CountRanks() {
  namespace fs = std::filesystem;
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; process != end;
       process.increment(error)) {
    std::error_code gone;
    for (fs::directory_iterator thread(process->path() / "task", gone); thread != end;
         thread.increment(gone)) {
      if (TextOf(thread->path() / "comm") != kRanksThread) continue;
      ++count;
      break;
    }
  }
  return count;
}

void CollectMachine(HostFacts* facts) {
  utsname system{};
  if (::uname(&system) == 0) facts->kernel = std::string(system.sysname) + " " + system.release;
  facts->cores = static_cast<int>(std::thread::hardware_concurrency());
  facts->memory_bytes =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  facts->ranks_running = CountRanks();
  facts->ptrace_scope = static_cast<int>(NumberOf("/proc/sys/kernel/yama/ptrace_scope"));
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts->descriptors_soft = limit.rlim_cur;
    facts->descriptors_hard = limit.rlim_max;
  }
  std::istringstream sizes(TextOf("/proc/sys/net/ipv4/tcp_rmem"));  // least, default, most
  for (int i = 0; i < 3; ++i) sizes >> facts->socket_receive_bytes;
}

void CollectDevices(DeviceFacts* facts) {
  const StatusOr<int> devices = CountDevices();
  facts->error = Message(devices.status());
  if (!devices.ok()) return;
  facts->devices = *devices;
  const Status nccl = FindDeviceSupport("");
  facts->nccl = nccl.ok();
  facts->nccl_error = Message(nccl);
}

}  // namespace

HostFacts CollectHost(const CollectRequest& request) {
  HostFacts facts;
  facts.host = request.host;
  facts.slots = request.slots;
  facts.build = request.build;
  CollectMachine(&facts);
  CollectInterfaces(&facts);
  CollectPlace(request, &facts);
  CollectPorts(request, &facts);
  CollectTransport(request, &facts);
  CollectDevices(&facts.gpu);
  if (!request.store.empty()) facts.disk = MeasureDisk(request.store);
  return facts;
}

}  // namespace ringwood
