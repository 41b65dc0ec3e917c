#include "transport/ucx/wiring.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.h"
#include "transport/ucx/neighbour.h"
#include "transport/watch.h"

namespace ringwood {

UcxWiring::UcxWiring(UcxWorker* worker, Refusals* refusals, Callbacks callbacks)
    : worker_(worker), refusals_(refusals), callbacks_(std::move(callbacks)) {}

Status UcxWiring::Listen(const std::string& ip, const PortRange& ports) {
  const auto on_request = [this](ucp_conn_request_h request) {
    if (!closed_ && requests_.size() < kMaxRequests) {
      requests_.push_back(request);
    } else {
      listener_->Reject(request);
    }
  };
  RW_ASSIGN_OR_RETURN(
      listener_, UcxListener::Make(worker_->handle(), ip, ports, worker_->client(), on_request));
  if (!ports.any()) {
    const uint16_t ours[] = {worker_->port(), listener_->socket().port()};
    ForgetAtEnd(ours);
  }
  cookie_ = worker_->client();
  address_ = Format(
      {listener_->socket(), worker_->client(), getpid(), reinterpret_cast<uint64_t>(&cookie_)});
  return OkStatus();
}

Status UcxWiring::Join(int self, const std::vector<Peer>& peers, Inbox* inbox) {
  self_ = self;
  inbox_ = inbox;
  for (const Peer& peer : peers) {
    if (peer.node == self_) continue;
    UcxLink& link = links_[peer.node];
    link.wiring = this;
    link.peer = peer.node;
    const auto address = ParseUcxAddress(peer.address);
    if (!address.ok()) return Annotate(address.status(), peer.label);
    link.address = *address;
  }
  FindNeighbours(peers);
  return OkStatus();
}

void UcxWiring::FindNeighbours(const std::vector<Peer>& peers) {
  std::string host;
  for (const Peer& peer : peers) {
    if (peer.node == self_) host = peer.host;
  }
  for (const Peer& peer : peers) {
    if (peer.node == self_ || host.empty() || peer.host != host) continue;
    UcxLink& link = links_.at(peer.node);
    link.readable = HasCookie(link.address.pid, link.address.cookie, link.address.client);
    if (link.readable) continue;
    Log(LogLevel::kDebug, "the memory of " + peer.label + " cannot be read, TCP carries all: is " +
                              "CAP_SYS_PTRACE or kernel.yama.ptrace_scope=0 missing?");
  }
}

Status UcxWiring::MakeEndpoint(UcxLink& link, ucp_ep_params_t& params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&UcxWiring::OnError, &link};
  return FromUcx(ucp_ep_create(worker_->handle(), &params, &link.endpoint),
                 "connect to " + inbox_->Label(link.peer));
}

void UcxWiring::ConnectToHigher() {
  for (auto& [node, link] : links_) {
    if (node > self_) Open(link);
  }
}

void UcxWiring::Open(UcxLink& link) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER | UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID;
  params.sockaddr = {link.address.socket.name(), link.address.socket.size()};
  const Status made = MakeEndpoint(link, params);
  made.ok() ? callbacks_.connected(link) : callbacks_.lost(link, made);
}

void UcxWiring::AcceptRequests() {
  if (inbox_ == nullptr) return;
  for (ucp_conn_request_h request : std::exchange(requests_, {})) Accept(request);
}

// Connections of nodes that are no peers of this epoch, or that are there already, are refused.
void UcxWiring::Accept(ucp_conn_request_h request) {
  ucp_conn_request_attr_t attributes{};
  attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID;
  UcxLink* found = nullptr;
  if (ucp_conn_request_query(request, &attributes) == UCS_OK) {
    for (auto& [node, link] : links_) {
      if (link.address.client == attributes.client_id) found = &link;
    }
  }
  if (found == nullptr || found->endpoint != nullptr || !inbox_->reason(found->peer).ok()) {
    refusals_->Say("the connection of a node that is not awaited was refused", Now());
    listener_->Reject(request);
    return;
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  if (const Status made = MakeEndpoint(*found, params); !made.ok()) {
    return callbacks_.lost(*found, made);
  }
  found->connected = true;
  callbacks_.connected(*found);
}

UcxLink* UcxWiring::Find(int node) {
  const auto found = links_.find(node);
  return found != links_.end() ? &found->second : nullptr;
}

// Runs inside UCX's progress, where an endpoint must not be closed: CloseBroken does that later.
void UcxWiring::OnError(void* link, ucp_ep_h endpoint, ucs_status_t status) {
  auto* const broken = static_cast<UcxLink*>(link);
  UcxWiring* const wiring = broken->wiring;
  const Status reason =
      Unavailable(wiring->inbox_->Label(broken->peer) + " died or closed its connection (" +
                  ucs_status_string(status) + ")");
  // A peer that closed an established connection, or refused one, could be reached. (UCX 1.13 says
  // "timeout" for both; silent peers are the watch's.)
  const bool reached = broken->heard || status == UCS_ERR_REJECTED;
  wiring->Break(*broken, reached ? reason : Accusing(reason, {broken->peer}));
}

void UcxWiring::Break(UcxLink& link, const Status& reason) {
  link.parted = true;
  if (closed_) return;
  callbacks_.lost(link, reason);
  broken_.push_back(&link);
}

void UcxWiring::CloseBroken() {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for (UcxLink* link : std::exchange(broken_, {})) {
    ucp_ep_h endpoint = std::exchange(link->endpoint, nullptr);
    if (endpoint == nullptr) continue;
    const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);  // goes on by itself
  }
}

void UcxWiring::StopAccepting() {
  closed_ = true;
  for (ucp_conn_request_h request : std::exchange(requests_, {})) listener_->Reject(request);
}

// Settle, part, close: UCX 1.13.1 aborts when a half-made connection is closed; a forced close
// overtakes data under way, a goodbye's answer comes after all of it; and only a forced close that
// has completed proves that UCX touches no buffer any more.
void UcxWiring::Close(const std::function<void(UcxLink&)>& goodbye) {
  const TimePoint deadline = Now() + Seconds(kCloseSeconds);
  Settle();
  if (goodbye != nullptr) Part(goodbye, deadline);
  std::vector<ucs_status_ptr_t> requests;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for (auto& [node, link] : links_) {
    if (link.endpoint == nullptr) continue;
    requests.push_back(ucp_ep_close_nbx(std::exchange(link.endpoint, nullptr), &param));
  }
  for (ucs_status_ptr_t request : requests) worker_->Await(request, deadline);
  closed_at_ = Now();
}

void UcxWiring::Settle() {
  const auto settled = [this] {
    return std::all_of(links_.begin(), links_.end(), [](auto& entry) {
      const UcxLink& link = entry.second;
      return link.endpoint == nullptr || link.heard || link.parted;
    });
  };
  worker_->ProgressUntil(settled, Now() + Seconds(kSettleSeconds));
}

// Messages between two nodes arrive in order, so the answer to a goodbye says that everything sent
// before it has arrived.
void UcxWiring::Part(const std::function<void(UcxLink&)>& goodbye, TimePoint deadline) {
  for (auto& [node, link] : links_) {
    const bool reachable = link.endpoint != nullptr && (link.connected || node > self_);
    if (!reachable) link.parted = true;
    if (!link.parted) goodbye(link);
  }
  const auto all_parted = [this] {
    return std::all_of(links_.begin(), links_.end(),
                       [](auto& entry) { return entry.second.parted; });
  };
  worker_->ProgressUntil(all_parted, deadline);
  if (!all_parted()) Log(LogLevel::kWarning, "closing although a peer did not answer our goodbye");
}

bool UcxWiring::ExpectsConnections() const {
  if (inbox_ == nullptr) return listener_ != nullptr;  // never joined: anybody may be calling
  return std::any_of(links_.begin(), links_.end(), [this](const auto& entry) {
    return entry.first < self_ && !entry.second.connected;
  });
}

void UcxWiring::StopListening() {
  if (ExpectsConnections()) {
    const Duration left = Seconds(kGraceSeconds) - (Now() - closed_at_);
    if (left > Duration::zero()) std::this_thread::sleep_for(left);
  }
  listener_.reset();
}

}  // namespace ringwood
