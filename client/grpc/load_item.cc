#include "client/grpc/load_item.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/digest.h"

namespace ringwood {
namespace {

constexpr double kLoadSeconds = 1800;  // an item may be tens of GB from a slow disk

bool IsWhole(const v1::SmallItem& item) {
  return Digest(std::as_bytes(std::span(item.data()))) == item.checksum();
}

}  // namespace

Status LoadItem(v1::Store::Stub* store, Calls* calls, const v1::LoadRequest& request,
                uint64_t item_bytes, const std::function<Status(std::span<const std::byte>)>& take,
                const std::string& what, const std::function<void(Following*)>& ahead) {
  grpc::ClientContext context;
  const Calls::Scope scope(calls, &context, Seconds(kLoadSeconds));
  const auto reader = store->Load(&context, request);
  const std::string& name = request.item();
  v1::LoadChunk chunk;
  uint64_t at = 0;
  Status wrong;
  while (wrong.ok() && reader->Read(&chunk)) {
    const std::span<const std::byte> data = std::as_bytes(std::span(chunk.data()));
    if (chunk.item_bytes() != item_bytes || chunk.offset() != at || data.size() > item_bytes - at) {
      wrong = Corrupt(
          absl::StrFormat("the item '%s' has a piece %d+%d of %d bytes, expected at %d of %d", name,
                          chunk.offset(), data.size(), chunk.item_bytes(), at, item_bytes));
    } else if (Digest(data) != chunk.checksum()) {
      wrong = Corrupt(absl::StrFormat("the item '%s' arrived damaged at byte %d", name, at));
    } else {
      wrong = take(data);
      at += data.size();
      Following* const following = chunk.mutable_following();
      if (ahead && std::all_of(following->begin(), following->end(), IsWhole)) ahead(following);
    }
  }
  if (!wrong.ok()) context.TryCancel();
  const grpc::Status ended = reader->Finish();
  RW_RETURN_IF_ERROR(wrong);
  RW_RETURN_IF_ERROR(calls->Translate(ended, what));
  if (at == item_bytes) return OkStatus();
  return Corrupt(absl::StrFormat("the item '%s' ends at byte %d of %d", name, at, item_bytes));
}

}  // namespace ringwood
