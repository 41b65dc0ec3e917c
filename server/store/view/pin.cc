#include "server/store/view/pin.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "server/store/pins.h"
#include "server/store/store_directory.h"
#include "server/store/view/store_view.h"

namespace ringwood {
namespace {

constexpr double kPinPatienceSeconds = 10;  // a server that removes large files has it so long

}  // namespace

StatusOr<CheckpointId> PinCheckpoint(const std::string& store_dir, const WantedCheckpoint& wanted,
                                     const std::string& label) {
  RW_RETURN_IF_ERROR(CheckStore(store_dir));
  if (label.size() > kMaxLabelBytes || Printable(label, kMaxLabelBytes) != label) {
    return Invalid(
        absl::StrFormat("a label is a text of at most %d bytes in one line", kMaxLabelBytes));
  }
  const std::string directory = store_dir + "/checkpoints";
  RW_ASSIGN_OR_RETURN(const auto lock, PinLock::Take(directory, Seconds(kPinPatienceSeconds)));
  RW_ASSIGN_OR_RETURN(const StoreView view, StoreView::Open(store_dir));
  RW_ASSIGN_OR_RETURN(const CheckpointId id, view.reader().Resolve(wanted));
  RW_RETURN_IF_ERROR(ReplaceFile(PinFile(directory, id), label));
  return id;
}

StatusOr<CheckpointId> UnpinCheckpoint(const std::string& store_dir,
                                       const WantedCheckpoint& wanted) {
  RW_RETURN_IF_ERROR(CheckStore(store_dir));
  const std::string directory = store_dir + "/checkpoints";
  RW_ASSIGN_OR_RETURN(const auto lock, PinLock::Take(directory, Seconds(kPinPatienceSeconds)));
  RW_ASSIGN_OR_RETURN(const auto pins, ReadPins(directory));
  for (auto pin = pins.rbegin(); pin != pins.rend(); ++pin) {
    const CheckpointId& id = pin->first;
    if (!wanted.Is(id)) continue;
    const std::string path = PinFile(directory, id);
    if (unlink(path.c_str()) == 0) return id;
    return Unavailable("cannot remove " + path + ": " + std::strerror(errno));
  }
  return NotFound("no such checkpoint of " + store_dir + " is pinned");
}

}  // namespace ringwood
