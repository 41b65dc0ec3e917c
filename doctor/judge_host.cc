#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "doctor/finding.h"
#include "transport/descriptors.h"

namespace ringwood {
namespace {

constexpr double kSlowDisk = 50e6;         // bytes a second: a 1 GB checkpoint takes 20 s
constexpr double kSlowSyncSeconds = 0.02;  // of each step, with --update-log=fsync
constexpr double kLittleSpace = 2e9;
constexpr uint64_t kOpenAtStart = 32;   // descriptors of a rank before it connects
constexpr double kSlowNic = 1e9;        // bits a second
constexpr size_t kUcxDescriptors = 3;   // of a connection (docs/transport.md)
constexpr size_t kGrpcDescriptors = 2;  // the same
constexpr int kSparePorts = 2;          // of the first host: the coordinator's, MASTER_PORT

int WorldOf(const ClusterFacts& facts) {
  int world = 0;
  for (const HostFacts& host : facts.hosts) world += host.slots;
  return world;
}

void JudgeNetwork(const HostFacts& host, bool several, std::vector<Finding>* found) {
  if (!host.interface_error.empty()) {
    found->push_back({Severity::kError, host.interface_error, host.host,
                      "give --network-interface the interface that joins the hosts"});
    return;
  }
  for (const InterfaceFacts& nic : host.interfaces) {
    if (nic.name != host.interface_name) continue;
    if (nic.loopback && several) {
      found->push_back({Severity::kError,
                        "the data plane's interface is " + nic.name + ", which joins no hosts",
                        host.host, "give --network-interface the interface that joins the hosts"});
    }
    if (nic.bits_per_second > 0 && nic.bits_per_second < kSlowNic) {
      found->push_back(
          {Severity::kWarning,
           absl::StrFormat("%s runs at %.0f Mbit/s", nic.name, nic.bits_per_second / 1e6),
           host.host, "look at cable, port and autonegotiation (ethtool " + nic.name + ")"});
    }
  }
  if (!host.transport_error.empty()) {
    found->push_back({Severity::kError,
                      absl::StrFormat("the data plane (%s) does not start: %s", host.transport,
                                      host.transport_error),
                      host.host,
                      host.transport == "ucx"
                          ? "mount /sys, which UCX reads; or use --transport grpc"
                          : "give --network-interface and --trusted-fabric as "
                            "for ringwood run"});
  }
}

void JudgeMachine(const HostFacts& host, std::vector<Finding>* found) {
  if (host.ranks_running > 0) {
    found->push_back(
        {Severity::kWarning,
         absl::StrFormat(
             "%s of a job train here meanwhile: rates, times and free ports are what it "
             "leaves, and each measurement takes from it for about a second",
             FormatCount(host.ranks_running, "rank")),
         host.host,
         "believe the figures once it has ended; --no-pairs, without --store, leaves it alone"});
  }
  if (host.cores > 0 && host.cores < host.slots) {
    found->push_back({Severity::kWarning,
                      absl::StrFormat("%s share %s", FormatCount(host.slots, "rank"),
                                      FormatCount(host.cores, "core")),
                      host.host, "give the host fewer slots, or expect ranks to wait for cores"});
  }
  if (host.slots > 1 && host.transport == "ucx" && host.ptrace_scope > 0) {
    found->push_back({Severity::kWarning,
                      absl::StrFormat("ranks of this host may not read each other's memory "
                                      "(kernel.yama.ptrace_scope is %d): long messages between "
                                      "them are copied through TCP",
                                      host.ptrace_scope),
                      host.host, "sysctl -w kernel.yama.ptrace_scope=0"});
  }
}

void JudgeDevices(const HostFacts& host, std::vector<Finding>* found) {
  const DeviceFacts& gpu = host.gpu;
  if (gpu.devices == 0) return;
  if (!gpu.nccl) {
    found->push_back({Severity::kError,
                      absl::StrFormat("%s cannot be used by several ranks: %s",
                                      FormatCount(gpu.devices, "GPU"), gpu.nccl_error),
                      host.host,
                      "install NCCL 2.14 or newer (PyTorch with CUDA brings it), or exchange "
                      "gradients from the host's memory"});
  }
  if (host.slots > gpu.devices) {
    found->push_back({Severity::kWarning,
                      absl::StrFormat("%s share %s", FormatCount(host.slots, "rank"),
                                      FormatCount(gpu.devices, "GPU")),
                      host.host, "give the host as many slots as it has GPUs"});
  }
}

void JudgeLimits(const HostFacts& host, int world, std::vector<Finding>* found) {
  const size_t each = host.transport == "grpc" ? kGrpcDescriptors : kUcxDescriptors;
  const size_t peers = static_cast<size_t>(std::max(0, world));  // the other ranks, and a server
  const auto room = RoomFor({kOpenAtStart, host.descriptors_soft, host.descriptors_hard},
                            {peers, host.transport == "grpc" ? 0 : peers, each});
  if (!room.ok()) {
    found->push_back({Severity::kError, Message(room.status()), host.host,
                      "raise nofile in /etc/security/limits.conf, LimitNOFILE= of the service, or "
                      "the container's ulimit; or use --transport grpc"});
  } else if (room->connections < peers) {
    found->push_back({Severity::kWarning,
                      absl::StrFormat("of %d possible connections %d fit below the limit of open "
                                      "files",
                                      peers, room->connections),
                      host.host, "raise the hard limit (ulimit -Hn)"});
  }
}

void JudgePorts(const HostFacts& host, bool first, std::vector<Finding>* found) {
  const PortFacts& ports = host.ports;
  if (ports.range.empty()) return;
  if (!ports.error.empty()) {
    found->push_back({Severity::kError, ports.error, host.host,
                      "give --port-range as FIRST-LAST, e.g. 20000-20099"});
    return;
  }
  const int needed = 2 * host.slots + (first ? 2 + kSparePorts : 0);
  const std::string what = absl::StrFormat(
      "the port range %s has %s, of which %d are free; %s of this host take %d", ports.range,
      FormatCount(ports.count, "port"), ports.free, FormatCount(host.slots, "rank"), needed);
  if (ports.count < needed) {
    found->push_back({Severity::kError, what, host.host, "give a wider --port-range"});
  } else if (ports.free < needed) {
    found->push_back({Severity::kError, what, host.host,
                      host.ranks_running > 0
                          ? "let the job end that trains here, or give another --port-range"
                          : "end what listens there (ss -ltnp), wait a minute for connections that "
                            "are ending, or give a wider --port-range",
                      true});
  }
  if (ports.unreserved > 0) {
    found->push_back(
        {Severity::kWarning,
         absl::StrFormat("the kernel may give %s of the range %s to outgoing connections (%d-%d)",
                         FormatCount(ports.unreserved, "port"), ports.range, ports.outgoing_first,
                         ports.outgoing_last),
         host.host,
         absl::StrFormat("sysctl -w net.ipv4.ip_local_reserved_ports=%s, or another range",
                         ports.range)});
  }
}

void JudgeDisk(const HostFacts& host, std::vector<Finding>* found) {
  const DiskFacts& disk = host.disk;
  if (disk.path.empty()) return;
  const auto add = [&](Severity severity, const std::string& what, const std::string& remedy) {
    found->push_back(
        {severity, absl::StrFormat("store %s: %s", disk.path, what), host.host, remedy});
  };
  if (!disk.error.empty()) {
    return add(Severity::kError, disk.error,
               "give --store a directory of the first host that this user may write");
  }
  if (disk.file_system == "tmpfs") {
    add(Severity::kWarning, "it lies in memory and is gone with the machine",
        "give --store a directory on a disk");
  }
  if (disk.free_bytes < kLittleSpace) {
    add(Severity::kWarning, FormatBytes(disk.free_bytes) + " are free",
        "make room for --keep-checkpoints + 2 checkpoints: each takes the model, the optimizer's "
        "state and a residual a rank");
  }
  if (disk.write_rate < kSlowDisk) {
    add(Severity::kWarning, absl::StrFormat("it takes %.0f MB a second", disk.write_rate / 1e6),
        "give --store a faster disk, or expect rare checkpoints");
  }
  if (disk.sync_seconds > kSlowSyncSeconds) {
    add(Severity::kNote,
        absl::StrFormat("a short write takes %s until it is on the disk",
                        FormatSeconds(disk.sync_seconds)),
        "--update-log=fsync would add this to every step: take --update-log, or another disk");
  }
}

}  // namespace

std::vector<Finding> JudgeHost(const HostFacts& host, const ClusterFacts& facts) {
  std::vector<Finding> found;
  if (!host.error.empty()) {
    return {{Severity::kError, host.error, host.host,
             "the remote shell has to reach the host without a password, and ringwood has to stand "
             "at the same path there (--rsh, --remote-program)",
             true}};
  }
  JudgeNetwork(host, facts.hosts.size() > 1, &found);
  JudgeMachine(host, &found);
  JudgeDevices(host, &found);
  JudgeLimits(host, WorldOf(facts), &found);
  JudgePorts(host, &host == &facts.hosts[0], &found);
  JudgeDisk(host, &found);
  return found;
}

}  // namespace ringwood
