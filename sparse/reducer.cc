#include "sparse/reducer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "sparse/climb.h"
#include "sparse/codec.h"
#include "sparse/global_cut.h"
#include "sparse/merge.h"
#include "sparse/select.h"

namespace ringwood {
namespace {

Content ContentOf(const Codec& codec, uint64_t count) {
  return {static_cast<uint8_t>(codec.value), codec.id(), count};
}

}  // namespace

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
      group.inbox.resize(part.children.size());
      for (size_t c = 0; c < part.children.size(); ++c) {
        group.inbox[c] =
            Buffer<std::byte>(MaxWireBytes(part.CodecOf(c), part.elements, part.most_sent[c]));
      }
      Arm(g);
    }
  }

  void Stop() { stopped_ = true; }
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  // Bytes on their way out, shared with the sends: not reused before the last of them is done.
  struct Message {
    Buffer<std::byte> wire;  // as large as it can become
    size_t bytes = 0;
    uint64_t entries = 0;
    std::vector<std::vector<std::byte>> counted;  // one a child
    std::span<const std::byte> payload() const { return wire.span().first(bytes); }
  };

  struct Group {
    ReducerPart part{};
    Status error{};  // what the plan has wrong
    uint64_t round = 0;
    std::vector<Buffer<std::byte>> inbox{};  // one a child, bounded by the plan
    std::vector<Entries> entries{};  // of each child; only the indices stay until the answer
    size_t missing = 0;              // children that have not been heard
    size_t lost = 0;                 // of them: children that are gone
    Status why{};                    // the first of those
    Entries sum{};                   // kExact: while the shards agree on the threshold
    std::optional<GlobalCut> cut{};
    std::vector<std::vector<uint32_t>> histograms{};  // of the level, one a shard
    size_t unheard = 0;                               // of them
    std::vector<uint32_t> kept{};                     // what survived here, in the order it went up
    std::shared_ptr<Message> up{};
    std::shared_ptr<Message> down{};
    Buffer<std::byte> answer{};  // counted bits from the parent
    size_t answer_bytes = 0;
    int descending = 0;  // messages from the parent that are missing
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

  MessageName Name(const Group& group, uint32_t slot) const {
    return {Lane::kSparse, group.round, group.part.group, 0, slot};
  }

  // Waits for every child's entries of the group's round.
  void Arm(size_t g) {
    Group& group = groups_[g];
    const std::vector<int>& children = group.part.children;
    group.missing = children.size();
    group.lost = 0;
    group.why = OkStatus();
    group.entries.assign(children.size(), {});
    const uint64_t round = group.round;
    for (size_t c = 0; c < children.size() && !stopped_; ++c) {
      RW_CHECK(group.round == round);
      transport_->Receive(
          children[c], Name(group, kEntriesSlot), ContentOf(group.part.CodecOf(c), 0),
          group.inbox[c].span(),
          [self = shared_from_this(), g, c](StatusOr<std::span<std::byte>> got, const Frame&) {
            self->OnEntries(g, c, got);
          });
    }
  }

  void OnEntries(size_t g, size_t c, const StatusOr<std::span<std::byte>>& got) {
    if (stopped_) return;
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    if (!got.ok()) {
      ++group.lost;
      if (group.why.ok()) group.why = got.status();
    } else {
      const Status read =
          Decode(part.CodecOf(c), part.elements, part.most_sent[c], *got, &group.entries[c]);
      if (!read.ok()) {
        return Fail(Annotate(read, absl::StrFormat("from node %d", part.children[c])), group);
      }
      --group.missing;
    }
    const bool somebody_waits = group.missing < part.children.size();
    if (group.lost > 0 && (somebody_waits || group.lost == part.children.size())) {
      return Fail(group.why, group);
    }
    if (group.missing == 0) Reduce(g);
  }

  void Reduce(size_t g) {
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    Entries sum = MergeSum(group.entries, part.elements);
    for (Entries& entries : group.entries) std::vector<float>().swap(entries.value);
    if (!part.roots.empty()) {
      group.sum = std::move(sum);
      group.cut.emplace(part.keep_of_all, part.shard, static_cast<int>(part.roots.size()));
      return AskShards(g);
    }
    if (part.merge != Merge::kUnion) KeepLargest(part.keep, &sum);
    Pass(g, std::move(sum));
  }

  // One level of the histograms, to and from the roots of all shards.
  void AskShards(size_t g) {
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    const uint32_t slot = kHistogramSlot + static_cast<uint32_t>(group.cut->level());
    group.histograms.assign(part.roots.size(), {});
    group.histograms[part.shard] = group.cut->Count(group.sum.value);
    group.unheard = part.roots.size() - 1;
    const auto own = std::make_shared<const std::vector<std::byte>>(
        GlobalCut::Pack(group.histograms[part.shard]));
    for (size_t s = 0; s < part.roots.size() && !stopped_; ++s) {
      if (part.roots[s] == node_) continue;
      transport_->Send(part.roots[s], Name(group, slot), {}, *own,
                       [self = shared_from_this(), g, own](Status status) {
                         if (!status.ok() && !self->stopped_) self->Fail(status, self->groups_[g]);
                       });
    }
    for (size_t s = 0; s < part.roots.size() && !stopped_; ++s) {
      if (part.roots[s] == node_) continue;
      const auto box = std::make_shared<Buffer<std::byte>>(GlobalCut::kMaxPackedBytes);
      transport_->Receive(
          part.roots[s], Name(group, slot), {}, box->span(),
          [self = shared_from_this(), g, s, box](StatusOr<std::span<std::byte>> got, const Frame&) {
            self->OnHistogram(g, s, got);
          });
    }
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
    group.cut->Apply(&group.sum);
    KeepLargest(group.part.keep, &group.sum);  // whatever the others said
    Pass(g, std::move(group.sum));
  }

  // What survived here goes up, or down at the root.
  void Pass(size_t g, Entries sum) {
    Group& group = groups_[g];
    const ReducerPart& part = group.part;
    const bool root = part.parent == -1;
    std::shared_ptr<Message>& message = root ? group.down : group.up;
    Fresh(&message, root ? part.most_down : part.most_up, group);
    Fill(group, sum, message.get());
    group.kept = std::move(sum.index);
    root ? Answer(g) : Ask(g);
  }

  // A message that nobody sends any more, with room for `entries`.
  void Fresh(std::shared_ptr<Message>* message, uint64_t entries, const Group& group) {
    if (*message == nullptr || message->use_count() > 1) {
      *message = std::make_shared<Message>();
      (*message)->wire =
          Buffer<std::byte>(MaxWireBytes(group.part.codec.Exact(), group.part.elements, entries));
    }
  }

  void Fill(const Group& group, const Entries& entries, Message* message) {
    Encode(group.part.codec.Exact(), group.part.elements, entries, &scratch_);
    RW_CHECK(scratch_.size() <= message->wire.size());
    std::copy(scratch_.begin(), scratch_.end(), message->wire.data());
    message->bytes = scratch_.size();
    message->entries = entries.size();
  }

  // Sends the survivors to the parent and waits for its answer.
  void Ask(size_t g) {
    Group& group = groups_[g];
    Fresh(&group.down, group.part.most_down, group);
    group.answer = Buffer<std::byte>(CountedBytes(group.kept.size()));
    group.descending = 2;
    const auto self = shared_from_this();
    const MessageName result = Name(group, kEntriesSlot), bits = Name(group, kCountedSlot);
    const uint64_t count = group.kept.size();
    SendOut(group, group.part.parent, result, ContentOf(group.part.codec.Exact(), count), group.up,
            group.up->payload());
    transport_->Receive(group.part.parent, result, ContentOf(group.part.codec.Exact(), 0),
                        group.down->wire.span(),
                        [self, g](StatusOr<std::span<std::byte>> got, const Frame& frame) {
                          if (self->stopped_) return;
                          Group& group = self->groups_[g];
                          if (!got.ok()) return self->Fail(got.status(), group);
                          group.down->bytes = got->size();
                          group.down->entries = frame.count;
                          if (--group.descending == 0) self->OnAnswer(g);
                        });
    if (stopped_) return;
    transport_->Receive(group.part.parent, bits, {0, 0, count}, group.answer.span(),
                        [self, g](StatusOr<std::span<std::byte>> got, const Frame&) {
                          if (self->stopped_) return;
                          Group& group = self->groups_[g];
                          if (!got.ok()) return self->Fail(got.status(), group);
                          group.answer_bytes = got->size();
                          if (--group.descending == 0) self->OnAnswer(g);
                        });
  }

  // What counted above, of what survived here.
  void OnAnswer(size_t g) {
    Group& group = groups_[g];
    if (group.answer_bytes != CountedBytes(group.kept.size())) {
      return Fail(Corrupt(absl::StrFormat("%d entries went up and %d bytes of bits came down",
                                          group.kept.size(), group.answer_bytes)),
                  group);
    }
    const std::vector<uint8_t> counted = UnpackCounted(group.answer.span(), group.kept.size());
    size_t at = 0;
    for (size_t j = 0; j < group.kept.size(); ++j) {
      group.kept[at] = group.kept[j];
      at += counted[j];
    }
    group.kept.resize(at);
    Answer(g);
  }

  // Sends the result (as it is encoded already) and each child's bits, and turns to the next round.
  void Answer(size_t g) {
    Group& group = groups_[g];
    const std::shared_ptr<Message> down = group.down;
    down->counted.resize(group.part.children.size());
    const MessageName result = Name(group, kEntriesSlot), bits = Name(group, kCountedSlot);
    const Content content = ContentOf(group.part.codec.Exact(), down->entries);
    for (size_t c = 0; c < group.part.children.size() && !stopped_; ++c) {
      const std::vector<uint32_t>& sent = group.entries[c].index;
      PackCounted(CountedOf(sent, group.kept), &down->counted[c]);
      SendOut(group, group.part.children[c], bits, {0, 0, sent.size()}, down, down->counted[c]);
      SendOut(group, group.part.children[c], result, content, down, down->payload());
    }
    if (stopped_) return;
    ++group.round;
    Arm(g);
  }

  void SendOut(const Group& group, int peer, const MessageName& name, const Content& content,
               std::shared_ptr<Message> message, std::span<const std::byte> payload) {
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
  std::vector<std::byte> scratch_;
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
