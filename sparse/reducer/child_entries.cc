#include "sparse/reducer/child_entries.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "sparse/codec.h"

namespace ringwood {

ChildEntries::ChildEntries(const ReducerPart& part)
    : part_(part), children_(part.children.size()), entries_(part.children.size()) {
  uint64_t total = 0;
  for (size_t c = 0; c < children_.size(); ++c) {
    children_[c].inbox = Buffer<std::byte>(part.InboxBytes(c) * part.chunks);
    entries_[c].index.reserve(part.most_sent[c]);
    entries_[c].value.reserve(part.most_sent[c]);
    total += part.most_sent[c];
  }
  sum()->index.reserve(total);
  sum()->value.reserve(total);
}

void ChildEntries::Restart() {
  missing_ = children_.size();
  lost_ = 0;
  heard_ = false;
  why_ = OkStatus();
  merger_.Restart(children_.size());
  for (size_t c = 0; c < children_.size(); ++c) {
    Child& child = children_[c];
    child.arrived.assign(part_.chunks, {});
    child.here.assign(part_.chunks, false);
    child.read = 0;
    child.lost = false;
    entries_[c].clear();
  }
}

std::span<std::byte> ChildEntries::Inbox(size_t child, int chunk) {
  const uint64_t bytes = part_.InboxBytes(child);
  return children_[child].inbox.span().subspan(static_cast<uint64_t>(chunk) * bytes, bytes);
}

// Decodes the child's chunks in order: one that is early waits.
Status ChildEntries::Take(size_t child, int chunk, std::span<const std::byte> bytes) {
  Child& from = children_[child];
  Entries* const entries = &entries_[child];
  heard_ = true;
  from.arrived[chunk] = bytes;
  from.here[chunk] = true;
  if (from.read == part_.chunks) return OkStatus();
  for (; from.read < part_.chunks && from.here[from.read]; ++from.read) {
    const Status read =
        Decode(part_.CodecOf(child), {0, part_.elements}, part_.most_sent[child] - entries->size(),
               from.arrived[from.read], entries);
    if (!read.ok()) return Annotate(read, absl::StrFormat("from node %d", part_.children[child]));
  }
  if (from.read == part_.chunks) --missing_;
  return OkStatus();
}

void ChildEntries::Lose(size_t child, const Status& why) {
  if (std::exchange(children_[child].lost, true)) return;
  ++lost_;
  if (why_.ok()) why_ = why;
}

Status ChildEntries::Failure() const {
  return lost_ > 0 && (heard_ || lost_ == children_.size()) ? why_ : OkStatus();
}

void ChildEntries::Merge(BlockRoom* room) {
  uint64_t end = part_.elements;
  for (size_t c = 0; c < children_.size(); ++c) {
    if (children_[c].read == part_.chunks) continue;
    const std::vector<uint32_t>& index = entries_[c].index;
    end = std::min<uint64_t>(end, index.empty() ? 0 : index.back());
  }
  merger_.Advance(entries_, end, part_.elements, room);
}

Status ChildEntries::KeepAccepted(std::span<const std::byte> bits) {
  std::vector<uint32_t>& kept = sum()->index;
  if (bits.size() != AcceptedBytes(kept.size())) {
    return Corrupt(absl::StrFormat("%d entries went up and %d bytes of bits came down", kept.size(),
                                   bits.size()));
  }
  accepted_.clear();
  UnpackAccepted(bits, kept.size(), &accepted_);
  size_t at = 0;
  for (size_t j = 0; j < kept.size(); ++j) {
    kept[at] = kept[j];
    at += accepted_[j];
  }
  kept.resize(at);
  return OkStatus();
}

}  // namespace ringwood
