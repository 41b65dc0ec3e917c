#include "server/store/view/parts_view.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "server/store/record/parts.h"
#include "server/store/store_directory.h"
#include "server/store/view/store_view.h"

namespace ringwood {

StatusOr<PartsView> PartsView::Open(const std::vector<std::string>& store_dirs) {
  PartsView view;
  for (const std::string& directory : store_dirs) {
    RW_RETURN_IF_ERROR(CheckStore(directory));
    for (const std::string& folder : PartsFolders(directory)) {
      const std::string name = "the store " + folder;
      RW_ASSIGN_OR_RETURN(auto db, OpenToRead(folder, name));
      RW_ASSIGN_OR_RETURN(const auto identity, CheckpointReader(db.get(), name).Identity());
      view.stores_[identity.store()] = {std::move(db), name};
    }
  }
  return view;
}

StatusOr<CheckpointReader> PartsView::ReaderOf(const v1::CheckpointPart& part) const {
  const auto found = stores_.find(part.store());
  if (found != stores_.end()) {
    return CheckpointReader(found->second.db.get(), found->second.name);
  }
  return Refused("a part is in " + PlaceName(part) +
                 ": run this where that directory is too (copied or mounted), and name it with a "
                 "further --store");
}

Status PartsView::CheckThere(const v1::CheckpointManifest& whole) const {
  for (int part = 0; part < whole.parts_size(); ++part) {
    RW_RETURN_IF_ERROR(
        Annotate(ReaderOf(whole.parts(part)).status(),
                 absl::StrFormat("the checkpoint of step %d (epoch %d) is divided among %d stores",
                                 whole.step(), whole.epoch(), whole.parts_size() + 1)));
  }
  return OkStatus();
}

StatusOr<std::string> PartsView::Chunk(const CheckpointReader& main,
                                       const v1::CheckpointManifest& whole,
                                       const v1::StoredItem& item,
                                       const v1::StoredChunk& chunk) const {
  const CheckpointId id{whole.epoch(), whole.step()};
  if (chunk.part() == 0) return main.Chunk(id, item, chunk);
  if (chunk.part() > static_cast<uint32_t>(whole.parts_size())) {
    return Corrupt("item \"" + item.name() + "\" has a chunk in a part that there is not");
  }
  RW_ASSIGN_OR_RETURN(const CheckpointReader reader,
                      ReaderOf(whole.parts(static_cast<int>(chunk.part()) - 1)));
  return reader.Chunk(id, item, chunk);
}

Status PartsView::Verify(const CheckpointReader& main, const v1::CheckpointManifest& whole,
                         const ReadProgress& progress) const {
  RW_RETURN_IF_ERROR(CheckThere(whole));
  const CheckpointId id{whole.epoch(), whole.step()};
  uint64_t done = 0;
  for (const v1::StoredItem& item : whole.items()) {
    for (const v1::StoredChunk& chunk : item.chunks()) {
      RW_RETURN_IF_ERROR(Chunk(main, whole, item, chunk).status());
      done += chunk.bytes();
      if (progress) RW_RETURN_IF_ERROR(progress(id, done, whole.bytes()));
    }
  }
  return OkStatus();
}

}  // namespace ringwood
