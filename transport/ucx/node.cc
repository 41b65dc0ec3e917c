#include "transport/ucx/node.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/log.h"
#include "transport/descriptors.h"
#include "transport/ucx/rendezvous_payload.h"

namespace ringwood {

UcxNode::UcxNode(Loop* loop, std::unique_ptr<UcxWorker> worker)
    : loop_(loop), worker_(std::move(worker)) {}

UcxNode::~UcxNode() {
  Close(Aborted("the node was destroyed"));
  Dispose();
}

Status UcxNode::Start(const std::string& ip, const PortRange& ports) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.arg = this;
  for (const unsigned id : {kMessageId, kAnnouncementId}) {
    param.id = id;
    param.cb = id == kMessageId ? &UcxNode::OnMessage : &UcxNode::OnAnnouncement;
    const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_->handle(), &param);
    if (status != UCS_OK) return FromUcx(status, "set UCX's message handler");
  }
  const auto on_request = [this](ucp_conn_request_h request) {
    if (!closed_ && requests_.size() < kMaxBeforeConnect) {
      requests_.push_back(request);
    } else {
      listener_->Reject(request);
    }
  };
  RW_ASSIGN_OR_RETURN(
      listener_, UcxListener::Make(worker_->handle(), ip, ports, worker_->client(), on_request));
  if (!ports.any()) {
    const uint16_t ours[] = {worker_->port(), ntohs(listener_->socket().sin_port)};
    ForgetAtEnd(ours);
  }
  cookie_ = worker_->client();
  address_ = Format(
      {listener_->socket(), worker_->client(), getpid(), reinterpret_cast<uint64_t>(&cookie_)});
  loop_->Attach(this);
  attached_ = true;
  return OkStatus();
}

Status UcxNode::Connect(const EpochName& name, const std::vector<Peer>& peers,
                        const FabricLimits& limits) {
  if (closed_) return Refused("the fabric is closed");
  RW_RETURN_IF_ERROR(ReserveDescriptors(peers.size(), kDescriptorsOfAPeer));
  inbox_ = std::make_unique<Inbox>(name, peers, limits);
  self_ = name.self;
  for (const Peer& peer : peers) {
    if (peer.node == name.self) continue;
    Link& link = links_[peer.node];
    link.node = this;
    link.peer = peer.node;
    const auto address = ParseUcxAddress(peer.address);
    if (!address.ok()) return Annotate(address.status(), peer.label);
    link.address = *address;
  }
  FindNeighbours(peers);
  StartWatch(limits);
  for (auto& [node, link] : links_) {
    if (self_ > node) continue;
    Open(link);
    Greet(link);
  }
  AcceptQueued();
  DeliverQueued();
  return OkStatus();
}

Status UcxNode::Make(Link& link, ucp_ep_params_t& params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&UcxNode::OnError, &link};
  return FromUcx(ucp_ep_create(worker_->handle(), &params, &link.endpoint),
                 "connect to " + inbox_->Label(link.peer));
}

void UcxNode::Open(Link& link) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER | UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID;
  params.sockaddr = {reinterpret_cast<const sockaddr*>(&link.address.socket),
                     sizeof link.address.socket};
  if (const Status status = Make(link, params); !status.ok()) FailLink(link, status);
}

// Connections of nodes that are no peers of this epoch, or that are there already, are refused.
void UcxNode::AcceptQueued() {
  if (inbox_ == nullptr) return;
  for (ucp_conn_request_h request : std::exchange(requests_, {})) {
    ucp_conn_request_attr_t attributes{};
    attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID;
    Link* found = nullptr;
    if (ucp_conn_request_query(request, &attributes) == UCS_OK) {
      for (auto& [node, link] : links_) {
        if (link.address.client == attributes.client_id) found = &link;
      }
    }
    if (found == nullptr || found->endpoint != nullptr || !inbox_->reason(found->peer).ok()) {
      refusals_.Say("the connection of a node that is not awaited was refused", Now());
      listener_->Reject(request);
      continue;
    }
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    if (const Status status = Make(*found, params); !status.ok()) {
      FailLink(*found, status);
      continue;
    }
    found->connected = true;
    Greet(*found);
    for (auto& outgoing : std::exchange(found->waiting, {})) Transmit(*found, std::move(outgoing));
  }
}

void UcxNode::FailLink(Link& link, const Status& reason) {
  inbox_->Fail(link.peer, reason);
  if (watch_) watch_->Forget(link.peer);
  for (auto& outgoing : std::exchange(link.waiting, {})) {
    Sent(std::move(outgoing), UCS_ERR_CANCELED);
  }
  DropAnnounced(link.peer);
}

void UcxNode::Send(int peer, const MessageName& name, const Content& content,
                   const Payload& payload, Transport::SendDone done) {
  RW_CHECK(inbox_ != nullptr);
  Status lost = inbox_->reason(peer);
  if (lost.ok() && !inbox_->IsPeer(peer)) {
    lost = Invalid(absl::StrFormat("node %d is no peer of this epoch", peer));
  }
  if (!lost.ok()) {
    lost = Annotate(lost, "send " + ToString(name) + " to " + inbox_->Label(peer));
    inbox_->Answer([done = std::move(done), lost] { done(lost); });
    RunAnswersSoon();
    return;
  }
  inbox_->CountSent(sizeof(Frame) + payload.bytes.size());
  auto outgoing = std::make_unique<Outgoing>(Outgoing{
      this, peer, inbox_->MakeFrame(name, content, payload), payload.bytes, std::move(done)});
  Link& link = links_.at(peer);
  if (link.endpoint == nullptr) {
    link.waiting.push_back(std::move(outgoing));
  } else if (link.reads_us && payload.bytes.size() >= kLeastAnnounced) {
    Announce(link, std::move(outgoing));
  } else {
    Transmit(link, std::move(outgoing));
  }
}

void UcxNode::Transmit(Link& link, std::unique_ptr<Outgoing> outgoing) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = &UcxNode::OnSent;
  param.user_data = outgoing.get();
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(link.endpoint, outgoing->id, &outgoing->frame, sizeof(Frame),
                      outgoing->payload.data(), outgoing->payload.size(), &param);
  if (UCS_PTR_IS_PTR(request)) {
    outgoing_.insert(outgoing.release());
  } else {
    Sent(std::move(outgoing), UCS_PTR_STATUS(request));
  }
}

void UcxNode::OnSent(void* request, ucs_status_t status, void* outgoing) {
  std::unique_ptr<Outgoing> done(static_cast<Outgoing*>(outgoing));
  UcxNode* const node = done->node;
  node->outgoing_.erase(done.get());
  ucp_request_free(request);
  node->Sent(std::move(done), status);
}

void UcxNode::Sent(std::unique_ptr<Outgoing> outgoing, ucs_status_t status) {
  AnswerSend(*outgoing, status);
}

void UcxNode::AnswerSend(Outgoing& outgoing, ucs_status_t status) {
  if (outgoing.done == nullptr) return;           // answered by Close
  Status result = inbox_->reason(outgoing.peer);  // the first reason is the one that explains
  if (status == UCS_OK) {
    result = OkStatus();
  } else if (result.ok()) {
    result = Unavailable(absl::StrFormat("send %s to %s: %s", ToString(NameOf(outgoing.frame)),
                                         inbox_->Label(outgoing.peer), ucs_status_string(status)));
  }
  inbox_->Answer([done = std::exchange(outgoing.done, nullptr), result] { done(result); });
}

void UcxNode::Receive(int peer, const MessageName& name, const Content& content,
                      const ReceiveBuffer& buffer, Transport::ReceiveDone done) {
  RW_CHECK(inbox_ != nullptr);
  inbox_->Post(peer, name, content, buffer, std::move(done));
  RunAnswersSoon();
}

void UcxNode::Withdraw(Lane lane, uint64_t round) {
  inbox_->Withdraw(lane, round);
  RunAnswersSoon();
}

ucs_status_t UcxNode::OnMessage(void* node, const void* header, size_t header_length, void* data,
                                size_t length, const ucp_am_recv_param_t* param) {
  auto* const self = static_cast<UcxNode*>(node);
  const StatusOr<Frame> frame = ParseFrame({static_cast<const std::byte*>(header), header_length});
  if (!frame.ok() || frame->bytes != length) {
    if (self->inbox_ != nullptr) self->inbox_->CountCorrupt();
    self->refusals_.Say(
        "a message was dropped: " + (frame.ok() ? "its length is wrong" : Message(frame.status())),
        Now());
    return UCS_OK;
  }
  if (frame->lane == kFarewellLane) {
    self->OnFarewell(*frame, {static_cast<const std::byte*>(data), length});
    return UCS_OK;
  }
  if (self->TakeNote(*frame) || self->closed_) return UCS_OK;
  const bool announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  return self->Accept(*frame, data, length, announced);
}

ucs_status_t UcxNode::Accept(const Frame& frame, void* data, size_t length, bool announced) {
  if (inbox_ == nullptr && queued_.size() >= kMaxBeforeConnect) {
    Log(LogLevel::kWarning, "a message was dropped: too many before the epoch was joined");
    return UCS_OK;
  }
  if (announced) {
    queued_.emplace_back(frame, std::make_unique<RendezvousPayload>(&worker_, data));
    return UCS_INPROGRESS;  // the descriptor stays ours
  }
  const std::span<const std::byte> payload(static_cast<const std::byte*>(data), length);
  if (inbox_ == nullptr) {
    queued_.emplace_back(frame, CopyPayload(payload));
  } else {
    if (length >= PollPacer::kLongBytes && IsStreaming()) pacer_.Arrived(Now());
    inbox_->Arrive(frame, payload);
  }
  return UCS_OK;
}

void UcxNode::DeliverQueued() {
  while (inbox_ != nullptr && !queued_.empty()) {
    auto [frame, incoming] = std::move(queued_.front());
    queued_.pop_front();
    inbox_->Arrive(frame, std::move(incoming));
  }
}

void UcxNode::OnError(void* link, ucp_ep_h endpoint, ucs_status_t status) {
  auto* const broken = static_cast<Link*>(link);
  UcxNode* const node = broken->node;
  broken->parted = true;
  if (node->closed_) return;
  node->FailLink(
      *broken, Unavailable(node->inbox_->Label(broken->peer) + " died or closed its connection (" +
                           ucs_status_string(status) + ")"));
  node->broken_.push_back(broken);
}

void UcxNode::CloseBroken() {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for (Link* link : std::exchange(broken_, {})) {
    ucp_ep_h endpoint = std::exchange(link->endpoint, nullptr);
    if (endpoint == nullptr) continue;
    const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);  // goes on by itself
  }
}

int UcxNode::Descriptor() const { return worker_->descriptor(); }

bool UcxNode::Arm() {
  if (inbox_ != nullptr && inbox_->HasAnswers()) return false;
  return ucp_worker_arm(worker_->handle()) == UCS_OK;
}

bool UcxNode::IsStreaming() const {
  return inbox_ != nullptr &&
         inbox_->AwaitsOnlyLong(PollPacer::kFewestAwaited, PollPacer::kLongBytes);
}

Duration UcxNode::Nap() {
  if (IsStreaming() && !inbox_->HasAnswers()) return pacer_.Nap();
  pacer_.Interrupt();
  return Duration::zero();
}

bool UcxNode::Progress() {
  // A bounded number of rounds, so that one busy worker cannot starve the loop's tasks.
  constexpr int kRounds = 64;
  const std::shared_ptr<UcxNode> self = shared_from_this();  // an answer may drop the last owner
  bool any = false;
  for (int i = 0; i < kRounds && ucp_worker_progress(worker_->handle()) != 0; ++i) any = true;
  AcceptQueued();
  DeliverQueued();
  CloseBroken();
  if (inbox_ != nullptr) any |= inbox_->RunAnswers();
  return any;
}

void UcxNode::RunAnswersSoon() {
  if (!closed_ || !inbox_->HasAnswers()) return;
  loop_->Post([self = shared_from_this()] { self->inbox_->RunAnswers(); });
}

bool UcxNode::Wait(ucs_status_ptr_t request, TimePoint deadline) {
  if (!UCS_PTR_IS_PTR(request)) return true;
  const auto finished = [&] { return ucp_request_check_status(request) != UCS_INPROGRESS; };
  ProgressUntil(finished, deadline);
  const bool in_time = finished();
  ucp_request_free(request);
  return in_time;
}

void UcxNode::ProgressUntil(const std::function<bool()>& reached, TimePoint deadline) {
  while (!reached() && Now() < deadline) {
    if (ucp_worker_progress(worker_->handle()) != 0) continue;
    if (ucp_worker_arm(worker_->handle()) != UCS_OK) continue;
    pollfd descriptor{worker_->descriptor(), POLLIN, 0};
    poll(&descriptor, 1, 1);
  }
}

void UcxNode::Settle() {
  const auto settled = [this] {
    return std::all_of(links_.begin(), links_.end(), [](auto& entry) {
      const Link& link = entry.second;
      return link.endpoint == nullptr || link.heard || link.parted;
    });
  };
  ProgressUntil(settled, Now() + Seconds(kSettleSeconds));
}

bool UcxNode::TakeNote(const Frame& frame) {
  const auto link = links_.find(static_cast<int>(frame.sender));
  if (link != links_.end()) link->second.heard = true;
  if (watch_) watch_->Heard(static_cast<int>(frame.sender), Now());
  switch (frame.lane) {
    case kGoodbyeLane:
      OnGoodbye(frame);
      return true;
    case kHelloLane:
      if (link != links_.end()) link->second.reads_us = frame.slot == 1;
      return true;
    case kReceiptLane:
      if (!closed_) OnReceipt(frame);
      return true;
    case kAskLane:
      if (frame.slot == 0 && !closed_ && link != links_.end() && link->second.endpoint != nullptr) {
        SendNote(link->second, kAskLane, 1, 0);
      }
      return true;
    default:
      return false;
  }
}

void UcxNode::OnGoodbye(const Frame& frame) {
  const auto found = links_.find(static_cast<int>(frame.sender));
  if (found == links_.end()) return;
  if (frame.slot == 1) {
    found->second.parted = true;
  } else if (found->second.endpoint != nullptr) {
    SendNote(found->second, kGoodbyeLane, 1, 0);
  }
}

void UcxNode::SendNote(Link& link, uint8_t lane, uint32_t slot, uint64_t count) {
  MessageName name;
  name.lane = static_cast<Lane>(lane);
  name.slot = slot;
  Transmit(link, std::make_unique<Outgoing>(Outgoing{
                     this, link.peer, inbox_->MakeFrame(name, {0, 0, count}, {}), {}, nullptr}));
}

void UcxNode::Part(TimePoint deadline) {
  for (auto& [node, link] : links_) {
    const bool reachable = link.endpoint != nullptr && (link.connected || node > self_);
    if (!reachable) link.parted = true;
    if (!link.parted) SendNote(link, kGoodbyeLane, 0, 0);
  }
  const auto all_parted = [this] {
    return std::all_of(links_.begin(), links_.end(),
                       [](auto& entry) { return entry.second.parted; });
  };
  ProgressUntil(all_parted, deadline);
  if (!all_parted()) Log(LogLevel::kWarning, "closing although a peer did not answer our goodbye");
}

// Sends what is still in UCX's hands if `graceful`, then makes UCX let go of every buffer.
void UcxNode::Quiesce(bool graceful) {
  const TimePoint deadline = Now() + Seconds(kCloseSeconds);
  Settle();
  if (graceful) Part(deadline);
  std::vector<ucs_status_ptr_t> requests;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for (auto& [node, link] : links_) {
    if (link.endpoint == nullptr) continue;
    requests.push_back(ucp_ep_close_nbx(std::exchange(link.endpoint, nullptr), &param));
  }
  for (ucs_status_ptr_t request : requests) Wait(request, deadline);
}

void UcxNode::Close(const Status& reason) {
  if (closed_) return;
  if (attached_) loop_->Detach(this);
  // Somebody still waits for something: the epoch is being torn down and nothing is worth sending.
  // Otherwise this is an orderly end, and a peer may still wait for our last message.
  // A silent peer answers no goodbye.
  bool graceful = inbox_ != nullptr && outgoing_.empty() && announced_.empty() &&
                  !inbox_->HasPending() && reason.code() != StatusCode::kDeadlineExceeded;
  for (const auto& [node, link] : links_) graceful &= link.waiting.empty();
  closed_ = true;
  queued_.clear();
  for (ucp_conn_request_h request : std::exchange(requests_, {})) listener_->Reject(request);
  if (inbox_ != nullptr) inbox_->Close(reason);
  SayFarewell(reason);
  Quiesce(graceful);
  closed_at_ = Now();
  if (inbox_ != nullptr) AnswerAll();
  const auto self = weak_from_this().lock();
  if (!Expects()) {
    Dispose();
  } else if (self != nullptr) {
    loop_->After(Seconds(kLingerSeconds), [self] { self->Dispose(); });
  }
  while (inbox_ != nullptr && inbox_->RunAnswers()) {
  }
}

void UcxNode::AnswerAll() {
  for (auto& [node, link] : links_) {
    for (auto& outgoing : std::exchange(link.waiting, {})) {
      Sent(std::move(outgoing), UCS_ERR_CANCELED);
    }
  }
  DropAnnounced(kEverybody);
  // What UCX has not completed is answered here; the objects stay until UCX is gone.
  for (Outgoing* outgoing : outgoing_) AnswerSend(*outgoing, UCS_ERR_CANCELED);
  inbox_->Abandon();
}

bool UcxNode::Expects() const {
  if (inbox_ == nullptr) return attached_;  // never joined: anybody may just be calling
  for (const auto& [node, link] : links_) {
    if (node < self_ && !link.connected) return true;
  }
  return false;
}

void UcxNode::Dispose() {
  if (worker_ == nullptr) return;
  if (Expects()) {
    const Duration left = Seconds(kGraceSeconds) - (Now() - closed_at_);
    if (left > Duration::zero()) std::this_thread::sleep_for(left);
  }
  listener_.reset();
  worker_.reset();
  for (Outgoing* outgoing : std::exchange(outgoing_, {})) delete outgoing;
}

TransportCounters UcxNode::Counters() const {
  return inbox_ != nullptr ? inbox_->counters() : TransportCounters{};
}

}  // namespace ringwood
