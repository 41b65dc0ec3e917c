#include "transport/ucx/worker.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

// Rings need no shared memory, no loopback device of UCX's own and no RDMA device: TCP only. Ports
// travel in the address, so a restarted process meets no old one. UCX gets a single port: of a
// range that is all in use it would try ports for ever.
Status Configure(ucp_config_t* config, const std::string& interface, const SocketAddress& address) {
  const uint16_t port = address.port();
  const std::pair<const char*, std::string> settings[] = {
      {"PORT_RANGE", port == 0 ? "0" : ToString(PortRange{port, port})},
      {"TLS", "tcp"},
      {"NET_DEVICES", interface},
      {"AF_PRIO", address.family() == AF_INET6 ? "inet6" : "inet"},
      // Below this a message leaves at once; the announcement of a rendezvous would wait behind
      // other messages in a slow NIC's queue (measured at 1 Gbit/s: 0.73 of the rate, now 0.94).
      {"RNDV_THRESH", "1m"},
      // A message that fits one segment is delivered where it was received; a longer one is put
      // together in a buffer of its own. 256 KiB and the headers.
      {"RX_SEG_SIZE", "264k"},
      // Silent peers are found by asking them (transport/watch.h); TCP's and UCX's own limits would
      // end connections within an outage that the failure timeout allows.
      {"KEEPALIVE_INTERVAL", "inf"},
      {"KEEPIDLE", "inf"},
  };
  for (const auto& [name, value] : settings) {
    const ucs_status_t status = ucp_config_modify(config, name, value.c_str());
    if (status != UCS_OK) {
      return FromUcx(status, absl::StrFormat("set UCX option %s=%s", name, value));
    }
  }
  return OkStatus();
}

// UCX puts handlers of its own on SIGSEGV and its like, and on SIGHUP, as soon as it is loaded.
// They are the host program's: what stood there before, SIG_IGN of nohup's included, comes back.
// Runs when this library is loaded, after those that it needs; handlers of others stay.
[[gnu::constructor]] void GiveSignalsBack() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now {};
    Dl_info owner{};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_DFL ||
        now.sa_handler == SIG_IGN) {
      continue;
    }
    if (dladdr(reinterpret_cast<void*>(now.sa_handler), &owner) == 0) continue;
    if (owner.dli_fname == nullptr || std::strstr(owner.dli_fname, "libucs.so") == nullptr)
      continue;
    ucs_debug_disable_signal(signal);
  }
}

}  // namespace

Status FromUcx(ucs_status_t status, const std::string& what) {
  const std::string message = what + ": " + ucs_status_string(status);
  switch (status) {
    case UCS_OK:
    case UCS_INPROGRESS:
      return OkStatus();
    case UCS_ERR_CANCELED:
      return Aborted(message);
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
      return Exhausted(message);
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_MESSAGE_TRUNCATED:
      return Invalid(message);
    default:
      return Unavailable(message);
  }
}

StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Make(const std::string& interface,
                                                     const std::string& ip, const PortRange& ports,
                                                     size_t needed, uint64_t client) {
  RW_ASSIGN_OR_RETURN(SocketAddress address, SocketAddress::Parse(ip, 0));
  for (const uint16_t port : PortsToTry(ports, client)) {
    address.set_port(port);
    if (port != 0 && !IsFree(ip, port)) continue;
    auto made = MakeOn(interface, address, client);
    if (made.ok() || made.status().code() != StatusCode::kAlreadyExists) return made;
  }
  return ShortOfPorts(ports, ip, needed);
}

StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::MakeOn(const std::string& interface,
                                                       const SocketAddress& address,
                                                       uint64_t client) {
  std::unique_ptr<UcxWorker> made(new UcxWorker);
  made->client_ = client;
  made->port_ = address.port();
  // UCX's own lines ("connection reset") would stand beside ours, which say who and when.
  ucs_global_opts_set_value("LOG_LEVEL", "fatal");
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return FromUcx(status, "read UCX's defaults");
  }
  if (Status status = Configure(config, interface, address); !status.ok()) {
    ucp_config_release(config);
    return status;
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucs_status_t status = ucp_init(&params, config, &made->context_);
  ucp_config_release(config);
  if (status == UCS_ERR_NO_DEVICE) {
    return Refused(absl::StrFormat(
        "UCX cannot use the interface %s (%s): give it an IPv4 address (loopback: ip addr add "
        "127.0.0.1/8 dev lo), or choose another transport (--transport grpc)",
        interface, address.ip()));
  }
  if (status != UCS_OK) return FromUcx(status, "start UCX on interface " + interface);

  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS |
                             UCP_WORKER_PARAM_FIELD_CLIENT_ID;
  worker_params.client_id = client;
  worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
  worker_params.events = UCP_WAKEUP_RX | UCP_WAKEUP_TX;
  status = ucp_worker_create(made->context_, &worker_params, &made->worker_);
  if (status == UCS_ERR_BUSY)
    return AlreadyExists(absl::StrFormat("port %d is in use", address.port()));
  if (status != UCS_OK) return FromUcx(status, "create a UCX worker on interface " + interface);
  status = ucp_worker_get_efd(made->worker_, &made->descriptor_);
  if (status != UCS_OK) return FromUcx(status, "get the UCX worker's descriptor");
  return made;
}

// UCX hands out no descriptors, so this process's are looked through.
void ForgetAtEnd(std::span<const uint16_t> ports) {
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    const int descriptor = std::atoi(it->path().filename().c_str());
    const uint16_t port = SocketAddress::OfSocket(descriptor).port();
    if (port == 0 || std::find(ports.begin(), ports.end(), port) == ports.end()) continue;
    const linger at_once{1, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
}

void UcxWorker::ProgressUntil(const std::function<bool()>& reached, TimePoint deadline) {
  while (!reached() && Now() < deadline) {
    if (Progress() || !Arm()) continue;
    pollfd descriptor{descriptor_, POLLIN, 0};
    poll(&descriptor, 1, 1);
  }
}

void UcxWorker::Await(ucs_status_ptr_t request, TimePoint deadline) {
  if (!UCS_PTR_IS_PTR(request)) return;
  ProgressUntil([&] { return ucp_request_check_status(request) != UCS_INPROGRESS; }, deadline);
  ucp_request_free(request);
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

}  // namespace ringwood
