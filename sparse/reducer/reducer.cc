#include "sparse/reducer/reducer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "sparse/chunks.h"
#include "sparse/codec.h"
#include "sparse/global_cut.h"
#include "sparse/merge.h"
#include "sparse/reducer/child_entries.h"
#include "sparse/reducer/outgoing.h"
#include "sparse/reducer/route.h"
#include "sparse/reducer/shard_agreement.h"
#include "sparse/select.h"
#include "sparse/tree_schedule.h"

namespace ringwood {
// What the callbacks share: alive as long as the transport owes one of them.
class Reducer::Service : public std::enable_shared_from_this<Service> {
 public:
  Service(Transport* transport, const TreeShape& shape, int node, std::vector<SparseGroup> groups,
          std::function<void(Status)> on_error)
      : transport_(transport), node_(node), on_error_(std::move(on_error)) {
    for (const SparseGroup& group : groups) {
      for (const int shard : RangesOf(shape, node, group)) {
        groups_.emplace_back(shape, node, group, shard);
      }
    }
  }

  void Start(uint64_t first_round) {
    std::optional<uint32_t> scheduled;  // the group whose schedule it is, of all its ranges
    Schedule schedule;
    for (size_t g = 0; g < groups_.size() && !stopped_; ++g) {
      Group& group = groups_[g];
      group.round = first_round;
      if (!group.error.ok()) return Fail(group.error, group);
      if (group.part.idle()) continue;  // nobody sends here, or a world of one
      if (scheduled != group.part.group) {
        schedule = TreeSchedule(group.part.shape, group.part.chunks, node_);
        scheduled = group.part.group;
      }
      group.route = RouteOf(group.part, schedule);
      group.sent.emplace(group.part);
      if (!group.route.up.empty()) {
        group.answer = Buffer<std::byte>(AcceptedBytes(group.part.most_up));
      }
      Arm(g);
    }
  }

  void Stop() { stopped_ = true; }

 private:
  // A range of a group: a node may serve several.
  struct Group {
    Group(const TreeShape& shape, int node, const SparseGroup& plan, int shard) {
      StatusOr<ReducerPart> made = PartOf(shape, node, plan, shard);
      error = made.status();
      if (made.ok()) part = *std::move(made);
      part.group = plan.group;
    }

    ReducerPart part{};
    Status error{};  // what the plan has wrong
    ReducerRoute route{};
    uint64_t round = 0;
    std::optional<ChildEntries> sent{};  // once started
    std::optional<ShardAgreement> agreement{};
    std::shared_ptr<Outgoing> up{};
    std::shared_ptr<Outgoing> down{};
    Buffer<std::byte> answer{};  // accepted bits from the parent
    int descending = 0;          // messages from the parent that are missing

    Entries* sum() { return sent->sum(); }
  };

  TreeSlot SlotOf(const Group& group, const Step& step) const {
    return SlotOfNumber(step.slot, group.part.chunks);
  }
  MessageName Name(const Group& group, const TreeSlot& slot) const {
    return NameIn(group.round, group.part.group, slot);
  }

  // Waits for every child's entries of the group's round.
  void Arm(size_t g) {
    groups_[g].sent->Restart();
    for (const Step& step : groups_[g].route.gather) {
      if (!stopped_) Await(g, step);
    }
  }

  void Await(size_t g, const Step& step) {
    Group& group = groups_[g];
    const TreeSlot slot = SlotOf(group, step);
    const size_t c = group.part.ChildAt(step.peer);
    transport_->Receive(
        step.peer, Name(group, slot), ContentOf(group.part.CodecOf(c), 0),
        group.sent->Inbox(c, slot.chunk),
        [self = shared_from_this(), g, c, chunk = slot.chunk](
            StatusOr<std::span<std::byte>> got, const Frame&) { self->OnChunk(g, c, chunk, got); });
  }

  void OnChunk(size_t g, size_t c, int chunk, const StatusOr<std::span<std::byte>>& got) {
    if (stopped_) return;
    Group& group = groups_[g];
    if (got.ok()) {
      const Status taken = group.sent->Take(c, chunk, *got);
      if (!taken.ok()) return Fail(taken, group);
    } else {
      group.sent->Lose(c, got.status());
    }
    if (const Status lost = group.sent->Failure(); !lost.ok()) return Fail(lost, group);
    if (!got.ok()) return;
    group.sent->Merge(&room_);
    if (group.sent->complete()) Reduce(g);
  }

  void Reduce(size_t g) {
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    if (part.agreeing > 0) {
      group.agreement.emplace(part);
      return AskShards(g);
    }
    if (part.merge != Merge::kUnion) KeepLargest(part.keep, group.sum());
    Pass(g);
  }

  // One level of the histograms, to and from the roots of all shards.
  void AskShards(size_t g) {
    Group& group = groups_[g];
    MessageName name = Name(group, {});
    name.slot = group.agreement->slot();
    const auto own =
        std::make_shared<const std::vector<std::byte>>(group.agreement->Count(*group.sum()));
    for (const Step& step : group.route.level) {
      if (stopped_) return;
      step.op == Op::kSend ? SendHistogram(g, step.peer, name, own) : AwaitHistogram(g, step, name);
    }
  }

  void SendHistogram(size_t g, int root, const MessageName& name,
                     std::shared_ptr<const std::vector<std::byte>> own) {
    transport_->Send(root, name, {}, *own, [self = shared_from_this(), g, own](Status status) {
      if (!status.ok() && !self->stopped_) self->Fail(status, self->groups_[g]);
    });
  }

  void AwaitHistogram(size_t g, const Step& step, const MessageName& name) {
    const auto box = std::make_shared<Buffer<std::byte>>(GlobalCut::kMaxPackedBytes);
    transport_->Receive(
        step.peer, name, {}, box->span(),
        [self = shared_from_this(), g, s = static_cast<size_t>(step.slot), box](
            StatusOr<std::span<std::byte>> got, const Frame&) { self->OnHistogram(g, s, got); });
  }

  void OnHistogram(size_t g, size_t s, const StatusOr<std::span<std::byte>>& got) {
    if (stopped_) return;
    Group& group = groups_[g];
    if (!got.ok()) return Fail(got.status(), group);
    const Status heard = group.agreement->Hear(s, *got);
    if (!heard.ok()) return Fail(heard, group);
    if (!group.agreement->heard_all()) return;
    if (!group.agreement->Decide()) return AskShards(g);
    group.agreement->Apply(group.sum());
    Pass(g);
  }

  // What survived here goes up, or down at the root.
  void Pass(size_t g) {
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    Outgoing::Renew(&group.down, part.DownBytes(), part.chunks);
    if (group.route.up.empty()) {
      for (const Relay& relay : group.route.relays) {
        if (relay.slot.kind == TreeSlot::Kind::kAccepted) return Answer(g);
        group.down->Encode(part, *group.sum(), relay.slot.chunk);
        PassDown(g, relay);
      }
    }
    Outgoing::Renew(&group.up, part.UpBytes(), part.chunks);
    for (const Step& step : group.route.up) {
      const TreeSlot slot = SlotOf(group, step);
      group.up->Encode(part, *group.sum(), slot.chunk);
      SendChunk(group, step.peer, slot, group.up);
    }
    AwaitAnswer(g);
  }

  void SendChunk(const Group& group, int peer, const TreeSlot& slot,
                 const std::shared_ptr<Outgoing>& message) {
    SendOut(group, peer, Name(group, slot),
            ContentOf(group.part.codec.Exact(), message->EntriesOf(slot.chunk)), message,
            message->Of(slot.chunk));
  }

  // The parent's answer: each chunk of the result goes on as it comes.
  void AwaitAnswer(size_t g) {
    Group& group = groups_[g];
    group.descending = static_cast<int>(group.route.relays.size());
    for (const Relay& relay : group.route.relays) {
      if (stopped_) return;
      relay.slot.kind == TreeSlot::Kind::kAccepted ? AwaitAccepted(g, relay)
                                                   : AwaitResult(g, relay);
    }
  }

  void AwaitResult(size_t g, const Relay& relay) {
    Group& group = groups_[g];
    transport_->Receive(relay.from, Name(group, relay.slot), ContentOf(group.part.codec.Exact(), 0),
                        group.down->Room(relay.slot.chunk),
                        [self = shared_from_this(), g, &relay](StatusOr<std::span<std::byte>> got,
                                                               const Frame& frame) {
                          if (self->stopped_) return;
                          Group& group = self->groups_[g];
                          if (!got.ok()) return self->Fail(got.status(), group);
                          group.down->Came(relay.slot.chunk, got->size(), frame);
                          self->PassDown(g, relay);
                          if (--group.descending == 0) self->Next(g);
                        });
  }

  void AwaitAccepted(size_t g, const Relay& relay) {
    Group& group = groups_[g];
    const uint64_t count = group.sum()->size();
    transport_->Receive(
        relay.from, Name(group, relay.slot), {0, 0, count},
        group.answer.span().first(AcceptedBytes(count)),
        [self = shared_from_this(), g](StatusOr<std::span<std::byte>> got, const Frame&) {
          if (self->stopped_) return;
          Group& group = self->groups_[g];
          if (!got.ok()) return self->Fail(got.status(), group);
          const Status kept = group.sent->KeepAccepted(*got);
          if (!kept.ok()) return self->Fail(kept, group);
          --group.descending;
          self->Answer(g);
        });
  }

  // One chunk of the result to all children, as it is encoded already.
  void PassDown(size_t g, const Relay& relay) {
    for (const int child : relay.to) SendChunk(groups_[g], child, relay.slot, groups_[g].down);
  }

  // To each child which of its entries were accepted: those that the sum still has.
  void Answer(size_t g) {
    Group& group = groups_[g];
    const Relay& relay = group.route.relays.back();
    const std::span<const Entries> sent = group.sent->entries();
    const std::shared_ptr<Outgoing> down = group.down;
    PackAcceptedOf(group.sum()->index, sent, &room_, &down->accepted);
    for (const int child : relay.to) {
      const size_t c = group.part.ChildAt(child);
      SendOut(group, child, Name(group, relay.slot), {0, 0, sent[c].size()}, down,
              down->accepted[c]);
    }
    if (group.descending == 0) Next(g);
  }

  // All children have been told everything.
  void Next(size_t g) {
    if (stopped_) return;
    ++groups_[g].round;
    Arm(g);
  }

  void SendOut(const Group& group, int peer, const MessageName& name, const Content& content,
               std::shared_ptr<Outgoing> message, const Payload& payload) {
    if (stopped_) return;
    const size_t g = static_cast<size_t>(&group - groups_.data());
    transport_->Send(peer, name, content, payload,
                     [self = shared_from_this(), g, message](Status status) {
                       if (!status.ok() && !self->stopped_) self->Fail(status, self->groups_[g]);
                     });
  }

  void Fail(const Status& status, const Group& group) {
    if (stopped_) return;
    stopped_ = true;
    const auto on_error = std::move(on_error_);
    on_error(Annotate(status, absl::StrFormat("reducer node %d, round %d, group %d", node_,
                                              group.round, group.part.group)));
  }

  Transport* const transport_;
  const int node_;
  std::function<void(Status)> on_error_;
  std::vector<Group> groups_;
  BlockRoom room_;
  bool stopped_ = false;
};

Reducer::Reducer(Transport* transport, const TreeShape& shape, int node,
                 std::vector<SparseGroup> groups, std::function<void(Status)> on_error)
    : service_(std::make_shared<Service>(transport, shape, node, std::move(groups),
                                         std::move(on_error))) {
  RW_CHECK(node >= shape.workers && node < shape.workers + shape.reducers);
}

Reducer::~Reducer() { service_->Stop(); }

void Reducer::Start(uint64_t first_round) { service_->Start(first_round); }

}  // namespace ringwood
