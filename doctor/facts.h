// What the doctor knows of the hosts of a job before it judges: plain values, as collected. Bytes,
// seconds, bytes a second. A text named `error` is empty where there was none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ringwood {

struct InterfaceFacts {
  std::string name;
  std::string address;  // IPv4, else IPv6; empty: none
  int prefix = 0;       // of the address, in bits
  bool up = false;
  bool loopback = false;
  int mtu = 0;
  double bits_per_second = 0;  // of a device, as its driver says; 0: it does not, or it is virtual
  bool operator==(const InterfaceFacts&) const = default;
};

struct RouteFacts {
  std::string destination;  // "default", "10.0.0.0/24", "fd00::/64"
  std::string gateway;      // empty: none
  std::string interface_name;
  bool operator==(const RouteFacts&) const = default;
};

// The folder of the store.
struct DiskFacts {
  std::string path;  // empty: not asked for
  std::string error;
  std::string file_system;  // "ext4", "tmpfs", "nfs"; or a number in hexadecimal
  double free_bytes = 0;
  double write_rate = 0;    // of a file that is written and synced
  double sync_seconds = 0;  // of 4 KiB, median
  bool operator==(const DiskFacts&) const = default;
};

struct PortFacts {
  std::string range;  // empty: any port
  std::string error;
  int count = 0;
  int free = 0;
  // The kernel gives ports of this range to outgoing connections, unless they are reserved
  // (net.ipv4.ip_local_port_range, ip_local_reserved_ports).
  int outgoing_first = 0, outgoing_last = 0;
  int unreserved = 0;  // of `range`, those that it may give away
  bool operator==(const PortFacts&) const = default;
};

struct DeviceFacts {
  int devices = 0;
  std::string error;  // why there is none: the build, the driver
  bool nccl = false;  // NCCL can be loaded
  std::string nccl_error;
  bool operator==(const DeviceFacts&) const = default;
};

struct HostFacts {
  std::string host;   // the launcher's name of it
  std::string error;  // it could not be reached; then nothing else is known
  int slots = 1;      // ranks it is to have

  std::map<std::string, std::string> build;  // "ringwood" → "0.1.0", "commit", "UCX", …
  std::string kernel;
  int cores = 0;
  double memory_bytes = 0;
  int ranks_running = 0;  // of jobs that train here now

  std::vector<InterfaceFacts> interfaces;
  std::vector<RouteFacts> routes;
  std::string interface_name;  // of the data plane, as the job would choose it
  std::string interface_error;
  std::string address;

  std::string transport;  // "ucx" or "grpc", as the job would choose it
  std::string transport_error;
  bool private_network = true;  // loopback, or so declared: NCCL may be used
  int ptrace_scope = 0;  // kernel.yama.ptrace_scope
  DeviceFacts gpu;

  uint64_t descriptors_soft = 0, descriptors_hard = 0;  // of open files
  double socket_receive_bytes = 0;                      // largest receive buffer of a connection
  PortFacts ports;
  DiskFacts disk;
  bool operator==(const HostFacts&) const = default;
};

// One pair of hosts, as `from` sees it.
struct LinkFacts {
  std::string from, to;
  std::string error;
  bool busy = false;           // the error is of the measurement: something else ended it
  std::string interface_name;  // through which the kernel of `from` sends to `to`
  double latency_seconds = 0;  // half of a round trip, median
  double sent_rate = 0;        // from → to
  double received_rate = 0;    // to → from
  double lost_share = 0;       // of the segments sent, those that TCP sent again; of the worse way
  double clock_offset = 0;     // the clock of `to`, minus that of `from`
  double clock_error = 0;      // of that number, at most
  bool operator==(const LinkFacts&) const = default;
};

struct ClusterFacts {
  std::vector<HostFacts> hosts;  // in the order of the ranks; the first has the store
  std::vector<LinkFacts> links;  // of every pair once, where they were measured
  bool links_measured = false;
};

}  // namespace ringwood
