#include "client/grpc/load_item.h"

#include <algorithm>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "client/grpc/divided_load.h"

namespace ringwood {
namespace {

constexpr double kLoadSeconds = 1800;  // an item may be tens of GB from a slow disk

bool IsWhole(const v1::SmallItem& item) {
  return Digest(std::as_bytes(std::span(item.data()))) == item.checksum();
}

void GiveFollowing(v1::LoadChunk* chunk, const std::function<void(Following*)>& ahead) {
  Following* const following = chunk->mutable_following();
  if (ahead && std::all_of(following->begin(), following->end(), IsWhole)) ahead(following);
}

// A load at one further store.
class FurtherLoad {
 public:
  FurtherLoad(std::shared_ptr<StoreLine> line, Calls* calls, const v1::LoadRequest& request)
      : line_(std::move(line)),
        calls_(calls),
        scope_(calls, &context_, Seconds(kLoadSeconds)),
        item_(request.item()),
        reader_(line_->stub->Load(&context_, request)) {}

  ChunkStream Stream() {
    return {[this](v1::LoadChunk* chunk) { return reader_->Read(chunk); },
            [this] {
              return calls_->Translate(reader_->Finish(),
                                       "load '" + item_ + "' at the store " + line_->address);
            },
            [this] { context_.TryCancel(); }};
  }

 private:
  const std::shared_ptr<StoreLine> line_;
  Calls* const calls_;
  grpc::ClientContext context_;
  const Calls::Scope scope_;
  const std::string item_;
  const std::unique_ptr<grpc::ClientReader<v1::LoadChunk>> reader_;
};

}  // namespace

Status LoadItem(StoreLines* stores, Calls* calls, const v1::LoadRequest& request,
                uint64_t item_bytes, const std::function<Status(std::span<const std::byte>)>& take,
                const std::string& what, const std::function<void(Following*)>& ahead) {
  grpc::ClientContext context;
  const Calls::Scope scope(calls, &context, Seconds(kLoadSeconds));
  const auto reader = stores->main().stub->Load(&context, request);
  const std::string& name = request.item();
  v1::LoadChunk chunk;
  uint64_t at = 0;
  Status wrong;
  while (wrong.ok() && reader->Read(&chunk)) {
    if (!chunk.elsewhere().empty()) {
      std::list<FurtherLoad> further;
      std::vector<ChunkStream> streams = {{[&](v1::LoadChunk* next) { return reader->Read(next); },
                                           [&] { return calls->Translate(reader->Finish(), what); },
                                           [&] { context.TryCancel(); }}};
      for (const std::string& address : chunk.elsewhere()) {
        streams.push_back(further.emplace_back(stores->At(address), calls, request).Stream());
      }
      return LoadDivided(std::move(streams), name, item_bytes, take,
                         [&](v1::LoadChunk* taken) { GiveFollowing(taken, ahead); });
    }
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
      GiveFollowing(&chunk, ahead);
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
