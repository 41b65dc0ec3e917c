#include "server/store/service/items_list.h"

#include <span>
#include <utility>

#include "base/digest.h"

namespace ringwood {
namespace {

constexpr size_t kListBytes = 256 << 10;  // of a part: small beside the memory of a chunk

}  // namespace

ItemsList::Stream* ItemsList::Open(Loop* loop, const v1::ItemsRequest& request, Find find) {
  const std::shared_ptr<ItemsList> list(new ItemsList(request, std::move(find)));
  const auto more = [loop, list](Stream* self) {
    if (!loop->Post([list, self] { list->Continue(self); })) {
      self->End(Unavailable("the store is stopping"));
    }
  };
  auto* stream = new Stream({more, [](Stream*) {}, [] {}});
  more(stream);
  return stream;
}

void ItemsList::Continue(Stream* stream) {
  if (sent_last_) return stream->End(OkStatus());
  if (opened_ == nullptr) {
    auto opened = find_({request_.epoch(), request_.step()});
    if (!opened.ok()) return stream->End(opened.status());
    opened_ = *std::move(opened);
    items_ = opened_->Loadable(request_.rank());
  }
  v1::ItemList list;
  for (size_t bytes = 0; next_ < items_.size() && bytes < kListBytes; ++next_) {
    v1::ListedItem* const item = list.add_items();
    item->set_name(items_[next_]->name());
    item->set_scope(items_[next_]->scope());
    item->set_bytes(items_[next_]->bytes());
    bytes += item->ByteSizeLong();
  }
  v1::ItemsPart part;
  part.set_list(list.SerializeAsString());
  part.set_checksum(Digest(std::as_bytes(std::span(part.list()))));
  part.set_last(next_ == items_.size());
  sent_last_ = part.last();
  stream->Send(std::move(part));
}

}  // namespace ringwood
