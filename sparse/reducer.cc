#include "sparse/reducer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/buffer.h"
#include "base/check.h"
#include "sparse/climb.h"
#include "sparse/codec.h"
#include "sparse/merge.h"
#include "sparse/select.h"

namespace ringwood {
namespace {

constexpr uint64_t kEntryBytes = sizeof(uint32_t) + sizeof(float);

Content ContentOf(const Codec& codec, uint64_t count) {
  return {static_cast<uint8_t>(codec.value), codec.id(), count};
}

// Most entries that `node` sends up.
uint64_t MaxUp(const TreeShape& shape, int node, const ReducerGroup& group) {
  const uint64_t workers = group.merge == "union" ? WorkersUnder(shape, node) : 1;
  return std::min(group.elements, group.k * workers);
}

// Most entries of the result.
uint64_t MaxDown(const TreeShape& shape, const ReducerGroup& group) {
  return MaxUp(shape, shape.workers, group);  // the root is the first reducer
}

uint64_t GroupBytes(const TreeShape& shape, int node, const ReducerGroup& group,
                    const Codec& codec) {
  uint64_t bytes = 0, total = 0, bits = 0;
  for (int child : ChildrenOf(shape, node)) {
    const uint64_t entries = MaxUp(shape, child, group);
    const Codec code = child < shape.workers ? codec : codec.Exact();
    bytes += MaxWireBytes(code, group.elements, entries) + entries * (kEntryBytes + 1);
    bits += CountedBytes(entries);
    total += entries;
  }
  if (total == 0) return 0;
  const uint64_t up = MaxUp(shape, node, group);
  bytes += total * kEntryBytes;  // the sum
  // Two answers and two messages up: those of the last round may still be on their way out.
  bytes += 2 * (MaxWireBytes(codec.Exact(), group.elements, MaxDown(shape, group)) + bits);
  bytes += 2 * (MaxWireBytes(codec.Exact(), group.elements, up) + CountedBytes(up));
  return bytes + kBlockElements * sizeof(float) + kBlockElements / 8;
}

}  // namespace

uint64_t ReducerMemoryBound(const TreeShape& shape, int node,
                            const std::vector<ReducerGroup>& groups) {
  uint64_t bytes = 0;
  for (const ReducerGroup& group : groups) {
    const StatusOr<Codec> codec = ParseCodec(group.codec);
    if (codec.ok()) bytes += GroupBytes(shape, node, group, *codec);
  }
  return bytes;
}

// What the callbacks share: alive as long as the transport owes one of them.
class Reducer::Service : public std::enable_shared_from_this<Service> {
 public:
  Service(Transport* transport, const TreeShape& shape, int node, std::vector<ReducerGroup> groups,
          std::function<void(Status)> on_error)
      : transport_(transport),
        shape_(shape),
        node_(node),
        parent_(ParentOf(shape, node)),
        children_(ChildrenOf(shape, node)),
        memory_bytes_(ReducerMemoryBound(shape, node, groups)),
        on_error_(std::move(on_error)) {
    for (ReducerGroup& group : groups) groups_.push_back({.plan = std::move(group)});
  }

  void Start(uint64_t first_round) {
    if (children_.empty()) return;  // an idle reducer, or a world of one
    for (size_t g = 0; g < groups_.size() && !stopped_; ++g) {
      Group& group = groups_[g];
      group.round = first_round;
      const StatusOr<Codec> codec = ParseCodec(group.plan.codec);
      if (!codec.ok()) return Fail(codec.status(), group);
      if (group.plan.merge != "gtopk" && group.plan.merge != "union") {
        return Fail(
            Invalid(absl::StrFormat("unknown merge \"%s\": use gtopk or union", group.plan.merge)),
            group);
      }
      group.codec = *codec;
      group.inbox.resize(children_.size());
      for (size_t c = 0; c < children_.size(); ++c) {
        const uint64_t entries = MaxUp(shape_, children_[c], group.plan);
        group.inbox[c] =
            Buffer<std::byte>(MaxWireBytes(UpCodec(group, c), group.plan.elements, entries));
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
    ReducerGroup plan;
    Codec codec{};
    uint64_t round = 0;
    std::vector<Buffer<std::byte>> inbox{};  // one a child, bounded by the plan
    std::vector<Entries> entries{};  // of each child; only the indices stay until the answer
    size_t missing = 0;              // children that have not been heard
    std::vector<uint32_t> kept{};    // what survived here, in the order it went up
    std::shared_ptr<Message> up{};
    std::shared_ptr<Message> down{};
    Buffer<std::byte> answer{};  // counted bits from the parent
    size_t answer_bytes = 0;
    int descending = 0;  // messages from the parent that are missing
  };

  Codec UpCodec(const Group& group, size_t c) const {
    return children_[c] < shape_.workers ? group.codec : group.codec.Exact();
  }

  MessageName Name(const Group& group, uint32_t slot) const {
    return {Lane::kSparse, group.round, group.plan.group, 0, slot};
  }

  // Waits for every child's entries of the group's round.
  void Arm(size_t g) {
    Group& group = groups_[g];
    group.missing = children_.size();
    group.entries.assign(children_.size(), {});
    const uint64_t round = group.round;
    for (size_t c = 0; c < children_.size() && !stopped_; ++c) {
      RW_CHECK(group.round == round);
      transport_->Receive(
          children_[c], Name(group, kEntriesSlot), ContentOf(UpCodec(group, c), 0),
          group.inbox[c].span(),
          [self = shared_from_this(), g, c](StatusOr<std::span<std::byte>> got, const Frame&) {
            self->OnEntries(g, c, got);
          });
    }
  }

  void OnEntries(size_t g, size_t c, const StatusOr<std::span<std::byte>>& got) {
    if (stopped_) return;
    Group& group = groups_[g];
    if (!got.ok()) return Fail(got.status(), group);
    const Status read = Decode(UpCodec(group, c), group.plan.elements,
                               MaxUp(shape_, children_[c], group.plan), *got, &group.entries[c]);
    if (!read.ok()) {
      return Fail(Annotate(read, absl::StrFormat("from node %d", children_[c])), group);
    }
    if (--group.missing == 0) Reduce(g);
  }

  void Reduce(size_t g) {
    Group& group = groups_[g];
    Entries sum = MergeSum(group.entries, group.plan.elements);
    for (Entries& entries : group.entries) std::vector<float>().swap(entries.value);
    if (group.plan.merge == "gtopk") KeepLargest(group.plan.k, &sum);
    if (parent_ == -1) {
      Fresh(&group.down, MaxDown(shape_, group.plan), group);
      Fill(group, sum, group.down.get());
      group.kept = std::move(sum.index);
      Answer(g);
    } else {
      Fresh(&group.up, MaxUp(shape_, node_, group.plan), group);
      Fill(group, sum, group.up.get());
      group.kept = std::move(sum.index);
      Ask(g);
    }
  }

  // A message that nobody sends any more, with room for `entries`.
  void Fresh(std::shared_ptr<Message>* message, uint64_t entries, const Group& group) {
    if (*message == nullptr || message->use_count() > 1) {
      *message = std::make_shared<Message>();
      (*message)->wire =
          Buffer<std::byte>(MaxWireBytes(group.codec.Exact(), group.plan.elements, entries));
    }
  }

  void Fill(const Group& group, const Entries& entries, Message* message) {
    Encode(group.codec.Exact(), group.plan.elements, entries, &scratch_);
    RW_CHECK(scratch_.size() <= message->wire.size());
    std::copy(scratch_.begin(), scratch_.end(), message->wire.data());
    message->bytes = scratch_.size();
    message->entries = entries.size();
  }

  // Sends the survivors to the parent and waits for its answer.
  void Ask(size_t g) {
    Group& group = groups_[g];
    Fresh(&group.down, MaxDown(shape_, group.plan), group);
    group.answer = Buffer<std::byte>(CountedBytes(group.kept.size()));
    group.descending = 2;
    const auto self = shared_from_this();
    const MessageName result = Name(group, kEntriesSlot), bits = Name(group, kCountedSlot);
    const uint64_t count = group.kept.size();
    SendOut(group, parent_, result, ContentOf(group.codec.Exact(), count), group.up,
            group.up->payload());
    transport_->Receive(parent_, result, ContentOf(group.codec.Exact(), 0), group.down->wire.span(),
                        [self, g](StatusOr<std::span<std::byte>> got, const Frame& frame) {
                          if (self->stopped_) return;
                          Group& group = self->groups_[g];
                          if (!got.ok()) return self->Fail(got.status(), group);
                          group.down->bytes = got->size();
                          group.down->entries = frame.count;
                          if (--group.descending == 0) self->OnAnswer(g);
                        });
    if (stopped_) return;
    transport_->Receive(parent_, bits, {0, 0, count}, group.answer.span(),
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
    down->counted.resize(children_.size());
    const MessageName result = Name(group, kEntriesSlot), bits = Name(group, kCountedSlot);
    const Content content = ContentOf(group.codec.Exact(), down->entries);
    for (size_t c = 0; c < children_.size() && !stopped_; ++c) {
      const std::vector<uint32_t>& sent = group.entries[c].index;
      PackCounted(CountedOf(sent, group.kept), &down->counted[c]);
      SendOut(group, children_[c], bits, {0, 0, sent.size()}, down, down->counted[c]);
      SendOut(group, children_[c], result, content, down, down->payload());
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
                                              group.round, group.plan.group)));
  }

  Transport* const transport_;
  const TreeShape shape_;
  const int node_;
  const int parent_;
  const std::vector<int> children_;
  const uint64_t memory_bytes_;
  std::function<void(Status)> on_error_;
  std::vector<Group> groups_;
  std::vector<std::byte> scratch_;
  bool stopped_ = false;
};

Reducer::Reducer(Transport* transport, const TreeShape& shape, int node,
                 std::vector<ReducerGroup> groups, std::function<void(Status)> on_error)
    : service_(std::make_shared<Service>(transport, shape, node, std::move(groups),
                                         std::move(on_error))) {
  RW_CHECK(node >= shape.workers && node < shape.workers + shape.reducers);
}

Reducer::~Reducer() { service_->Stop(); }

void Reducer::Start(uint64_t first_round) { service_->Start(first_round); }

uint64_t Reducer::MemoryBytes() const { return service_->memory_bytes(); }

}  // namespace ringwood
