#include "sparse/reducer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/digest.h"
#include "sparse/chunks.h"
#include "sparse/codec.h"
#include "sparse/global_cut.h"
#include "sparse/merge.h"
#include "sparse/select.h"
#include "sparse/tree.h"

namespace ringwood {
// What the callbacks share: alive as long as the transport owes one of them.
class Reducer::Service : public std::enable_shared_from_this<Service> {
 public:
  Service(Transport* transport, const TreeShape& shape, int node, std::vector<SparseGroup> groups,
          std::function<void(Status)> on_error)
      : transport_(transport),
        shape_(shape),
        node_(node),
        memory_bytes_(ReducerMemoryBound(shape, node, groups)),
        on_error_(std::move(on_error)) {
    for (const SparseGroup& group : groups) Add(group);
  }

  void Start(uint64_t first_round) {
    for (size_t g = 0; g < groups_.size() && !stopped_; ++g) {
      Group& group = groups_[g];
      group.round = first_round;
      if (!group.error.ok()) return Fail(group.error, group);
      const ReducerPart& part = group.part;
      if (part.idle()) continue;  // nobody sends here, or a world of one
      TakeSchedule(&group, node_);
      Prepare(&group);
      Arm(g);
    }
  }

  void Stop() { stopped_ = true; }
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  // Bytes on their way out, shared with the sends: not reused before the last of them is done.
  struct Message {
    struct Chunk {
      size_t bytes = 0;
      uint64_t entries = 0;
      uint64_t digest = 0;  // worked out once, for all children
    };
    Buffer<std::byte> wire;  // as large as all chunks can become
    std::vector<Chunk> chunks;
    std::vector<std::vector<std::byte>> accepted;  // one a child

    std::span<std::byte> Room(int chunk) {
      const size_t each = wire.size() / chunks.size();
      return wire.span().subspan(static_cast<size_t>(chunk) * each, each);
    }
    Payload Of(int chunk) { return {Room(chunk).first(chunks[chunk].bytes), chunks[chunk].digest}; }
  };

  // What one child sends in a round.
  struct Child {
    Buffer<std::byte> inbox{};                          // all chunks, bounded by the plan
    std::vector<std::span<const std::byte>> arrived{};  // one a chunk
    std::vector<bool> here{};                           // one a chunk
    int read = 0;                                       // chunks that are decoded
    bool lost = false;
  };

  // What goes down in one slot: it comes from the parent, or at the root is made here, and goes to
  // all children in this order.
  struct Relay {
    TreeSlot slot{};
    int from = -1;
    std::vector<int> to{};
  };

  struct Group {
    ReducerPart part{};
    // This node's schedule: entries of the children, what goes up (nothing at the root), and what
    // comes down, the accepted bits last.
    std::vector<Step> gather{};
    std::vector<Step> up_steps{};
    std::vector<Relay> relays{};
    Schedule level{};  // of histograms, at the root of a shard that agrees with others
    Status error{};    // what the plan has wrong
    uint64_t round = 0;
    std::vector<Child> children{};
    std::vector<Entries> entries{};  // of each child
    Merger merger{};
    bool heard = false;              // somebody has sent entries of the round
    size_t missing = 0;              // children that have not sent all
    size_t lost = 0;                 // children that are gone
    Status why{};                    // the first of those
    std::optional<GlobalCut> cut{};  // kExact: while the shards agree on the threshold
    std::vector<std::vector<uint32_t>> histograms{};  // of the level, one a shard
    size_t unheard = 0;                               // of them
    std::shared_ptr<Message> up{};
    std::shared_ptr<Message> down{};
    Buffer<std::byte> answer{};  // accepted bits from the parent
    int descending = 0;          // messages from the parent that are missing

    // The sum, and once it is cut what survived here, in the order it went up.
    Entries* sum() { return merger.sum(); }
  };

  void Add(const SparseGroup& plan) {
    Group group;
    StatusOr<ReducerPart> part = PartOf(shape_, node_, plan);
    if (part.ok()) {
      group.part = *std::move(part);
    } else {
      group.part.group = plan.group;
      group.error = part.status();
    }
    groups_.push_back(std::move(group));
  }

  static void TakeSchedule(Group* group, int node) {
    const ReducerPart& part = group->part;
    for (const Step& step : TreeSchedule(part.shape, part.chunks, node)) {
      const TreeSlot slot = SlotOfNumber(step.slot, part.chunks);
      if (step.op == Op::kReceiveReduce) {
        group->gather.push_back(step);
      } else if (slot.kind == TreeSlot::Kind::kEntries) {
        group->up_steps.push_back(step);
      } else {
        if (group->relays.empty() || group->relays.back().slot != slot) {
          group->relays.push_back({slot});
        }
        Relay& relay = group->relays.back();
        if (step.op == Op::kReceive) {
          relay.from = step.peer;
        } else {
          relay.to.push_back(step.peer);
        }
      }
    }
    if (part.agreeing > 0) group->level = LevelSchedule(part.shape, part.shard);
  }

  TreeSlot SlotOf(const Group& group, const Step& step) const {
    return SlotOfNumber(step.slot, group.part.chunks);
  }
  MessageName Name(const Group& group, const TreeSlot& slot) const {
    return NameIn(group.round, group.part.group, slot);
  }

  // All memory of the group, but for messages to send.
  void Prepare(Group* group) {
    const ReducerPart& part = group->part;
    group->children.resize(part.children.size());
    group->entries.resize(part.children.size());
    uint64_t total = 0;
    for (size_t c = 0; c < part.children.size(); ++c) {
      group->children[c].inbox = Buffer<std::byte>(part.InboxBytes(c) * part.chunks);
      group->entries[c].index.reserve(part.most_sent[c]);
      group->entries[c].value.reserve(part.most_sent[c]);
      total += part.most_sent[c];
    }
    group->sum()->index.reserve(total);
    group->sum()->value.reserve(total);
    if (!group->up_steps.empty()) group->answer = Buffer<std::byte>(AcceptedBytes(part.most_up));
  }

  // Waits for every child's entries of the group's round.
  void Arm(size_t g) {
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    group.missing = part.children.size();
    group.lost = 0;
    group.heard = false;
    group.why = OkStatus();
    group.merger.Restart(part.children.size());
    for (size_t c = 0; c < part.children.size(); ++c) {
      Child& child = group.children[c];
      child.arrived.assign(part.chunks, {});
      child.here.assign(part.chunks, false);
      child.read = 0;
      child.lost = false;
      group.entries[c].clear();
    }
    for (const Step& step : group.gather) {
      if (!stopped_) Await(g, step);
    }
  }

  void Await(size_t g, const Step& step) {
    Group& group = groups_[g];
    const TreeSlot slot = SlotOf(group, step);
    const size_t c = group.part.ChildAt(step.peer);
    const uint64_t bytes = group.part.InboxBytes(c);
    transport_->Receive(
        step.peer, Name(group, slot), ContentOf(group.part.CodecOf(c), 0),
        group.children[c].inbox.span().subspan(static_cast<uint64_t>(slot.chunk) * bytes, bytes),
        [self = shared_from_this(), g, c, chunk = slot.chunk](
            StatusOr<std::span<std::byte>> got, const Frame&) { self->OnChunk(g, c, chunk, got); });
  }

  void OnChunk(size_t g, size_t c, int chunk, const StatusOr<std::span<std::byte>>& got) {
    if (stopped_) return;
    Group& group = groups_[g];
    Child& child = group.children[c];
    if (got.ok()) {
      group.heard = true;
      child.arrived[chunk] = *got;
      child.here[chunk] = true;
      const Status read = Read(&group, c);
      if (!read.ok()) {
        return Fail(Annotate(read, absl::StrFormat("from node %d", group.part.children[c])), group);
      }
    } else if (!std::exchange(child.lost, true)) {
      ++group.lost;
      if (group.why.ok()) group.why = got.status();
    }
    if (group.lost > 0 && (group.heard || group.lost == group.children.size())) {
      return Fail(group.why, group);
    }
    if (got.ok()) Merge(g);
  }

  // Decodes the child's chunks that have their turn; one that is early waits.
  Status Read(Group* group, size_t c) {
    const ReducerPart& part = group->part;
    Child& child = group->children[c];
    Entries* const entries = &group->entries[c];
    if (child.read == part.chunks) return OkStatus();
    for (; child.read < part.chunks && child.here[child.read]; ++child.read) {
      RW_RETURN_IF_ERROR(Decode(part.CodecOf(c), {0, part.elements},
                                part.most_sent[c] - entries->size(), child.arrived[child.read],
                                entries));
    }
    if (child.read == part.chunks) --group->missing;
    return OkStatus();
  }

  // Adds what all children have: everything below the least of their last entries.
  void Merge(size_t g) {
    Group& group = groups_[g];
    uint64_t end = group.part.elements;
    for (size_t c = 0; c < group.children.size(); ++c) {
      if (group.children[c].read == group.part.chunks) continue;
      const std::vector<uint32_t>& index = group.entries[c].index;
      end = std::min<uint64_t>(end, index.empty() ? 0 : index.back());
    }
    group.merger.Advance(group.entries, end, group.part.elements, &room_);
    if (group.missing == 0) Reduce(g);
  }

  void Reduce(size_t g) {
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    if (part.agreeing > 0) {
      group.cut.emplace(part.keep_of_all, part.shard, part.agreeing);
      return AskShards(g);
    }
    if (part.merge != Merge::kUnion) KeepLargest(part.keep, group.sum());
    Pass(g);
  }

  // One level of the histograms, to and from the roots of all shards.
  void AskShards(size_t g) {
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    MessageName name = Name(group, {});
    name.slot = kHistogramSlot + static_cast<uint32_t>(group.cut->level());
    group.histograms.assign(static_cast<size_t>(part.agreeing), {});
    group.histograms[part.shard] = group.cut->Count(group.sum()->value);
    group.unheard = static_cast<size_t>(part.agreeing) - 1;
    const auto own = std::make_shared<const std::vector<std::byte>>(
        GlobalCut::Pack(group.histograms[part.shard]));
    for (const Step& step : group.level) {
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
    StatusOr<std::vector<uint32_t>> histogram = GlobalCut::Unpack(*got);
    if (!histogram.ok()) return Fail(histogram.status(), group);
    group.histograms[s] = *std::move(histogram);
    if (--group.unheard > 0) return;
    if (!group.cut->Take(group.histograms)) return AskShards(g);
    group.cut->Apply(group.sum());
    KeepLargest(group.part.keep, group.sum());  // whatever the others said
    Pass(g);
  }

  // What survived here goes up, or down at the root.
  void Pass(size_t g) {
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    Fresh(&group.down, part.DownBytes(), part);
    if (group.up_steps.empty()) {
      for (const Relay& relay : group.relays) {
        if (relay.slot.kind == TreeSlot::Kind::kAccepted) return Answer(g);
        Fill(part, *group.sum(), relay.slot.chunk, group.down.get());
        PassDown(g, relay);
      }
    }
    Fresh(&group.up, part.UpBytes(), part);
    const Codec exact = part.codec.Exact();
    for (const Step& step : group.up_steps) {
      const TreeSlot slot = SlotOf(group, step);
      Fill(part, *group.sum(), slot.chunk, group.up.get());
      SendOut(group, step.peer, Name(group, slot),
              ContentOf(exact, group.up->chunks[slot.chunk].entries), group.up,
              group.up->Of(slot.chunk));
    }
    AwaitAnswer(g);
  }

  // A message that nobody sends any more.
  void Fresh(std::shared_ptr<Message>* message, uint64_t chunk_bytes, const ReducerPart& part) {
    if (*message == nullptr || message->use_count() > 1) {
      *message = std::make_shared<Message>();
      (*message)->wire = Buffer<std::byte>(chunk_bytes * part.chunks);
      (*message)->chunks.resize(part.chunks);
    }
  }

  void Fill(const ReducerPart& part, const Entries& entries, int chunk, Message* message) {
    const Cut cut{entries.size(), part.chunks};
    const uint64_t begin = cut.begin(chunk), count = cut.begin(chunk + 1) - begin;
    const uint64_t bytes = Encode(part.codec.Exact(), {0, part.elements},
                                  EntriesView(entries).Part(begin, count), message->Room(chunk));
    message->chunks[chunk] = {bytes, count, Digest(message->Room(chunk).first(bytes))};
  }

  // The parent's answer: each chunk of the result goes on as it comes.
  void AwaitAnswer(size_t g) {
    Group& group = groups_[g];
    group.descending = static_cast<int>(group.relays.size());
    for (const Relay& relay : group.relays) {
      if (stopped_) return;
      relay.slot.kind == TreeSlot::Kind::kAccepted ? AwaitAccepted(g, relay)
                                                   : AwaitResult(g, relay);
    }
  }

  void AwaitResult(size_t g, const Relay& relay) {
    Group& group = groups_[g];
    transport_->Receive(
        relay.from, Name(group, relay.slot), ContentOf(group.part.codec.Exact(), 0),
        group.down->Room(relay.slot.chunk),
        [self = shared_from_this(), g, &relay](StatusOr<std::span<std::byte>> got,
                                               const Frame& frame) {
          if (self->stopped_) return;
          Group& group = self->groups_[g];
          if (!got.ok()) return self->Fail(got.status(), group);
          group.down->chunks[relay.slot.chunk] = {got->size(), frame.count, frame.checksum};
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
          self->OnAnswer(g, *got);
        });
  }

  // What accepted above, of what survived here.
  void OnAnswer(size_t g, std::span<const std::byte> bits) {
    Group& group = groups_[g];
    std::vector<uint32_t>& kept = group.sum()->index;
    if (bits.size() != AcceptedBytes(kept.size())) {
      return Fail(Corrupt(absl::StrFormat("%d entries went up and %d bytes of bits came down",
                                          kept.size(), bits.size())),
                  group);
    }
    accepted_.clear();
    UnpackAccepted(bits, kept.size(), &accepted_);
    size_t at = 0;
    for (size_t j = 0; j < kept.size(); ++j) {
      kept[at] = kept[j];
      at += accepted_[j];
    }
    kept.resize(at);
    --group.descending;
    Answer(g);
  }

  // One chunk of the result to all children, as it is encoded already.
  void PassDown(size_t g, const Relay& relay) {
    Group& group = groups_[g];
    const int chunk = relay.slot.chunk;
    const Content content = ContentOf(group.part.codec.Exact(), group.down->chunks[chunk].entries);
    for (const int child : relay.to) {
      SendOut(group, child, Name(group, relay.slot), content, group.down, group.down->Of(chunk));
    }
  }

  // To each child which of its entries accepted: those that the sum still has.
  void Answer(size_t g) {
    Group& group = groups_[g];
    const Relay& relay = group.relays.back();
    const std::shared_ptr<Message> down = group.down;
    PackAcceptedOf(group.sum()->index, group.entries, &room_, &down->accepted);
    for (const int child : relay.to) {
      const size_t c = group.part.ChildAt(child);
      SendOut(group, child, Name(group, relay.slot), {0, 0, group.entries[c].size()}, down,
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
               std::shared_ptr<Message> message, const Payload& payload) {
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
  const TreeShape shape_;
  const int node_;
  const uint64_t memory_bytes_;
  std::function<void(Status)> on_error_;
  std::vector<Group> groups_;
  BlockRoom room_;
  std::vector<uint8_t> accepted_;
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

uint64_t Reducer::MemoryBytes() const { return service_->memory_bytes(); }

}  // namespace ringwood
