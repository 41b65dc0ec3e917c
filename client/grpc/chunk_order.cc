#include "client/grpc/chunk_order.h"

#include "absl/strings/str_format.h"

namespace ringwood {

StatusOr<std::optional<size_t>> WhoseTurn(std::span<const std::optional<NextChunk>> next,
                                          uint64_t at, uint64_t item_bytes,
                                          const std::string& item) {
  std::optional<size_t> turn;
  for (size_t stream = 0; stream < next.size(); ++stream) {
    if (!next[stream]) continue;
    const auto [offset, bytes] = *next[stream];
    const bool fits = offset >= at && offset <= item_bytes && bytes <= item_bytes - offset;
    const bool second = turn && offset == at;
    if (!fits || second || bytes == 0) {
      return Corrupt(
          absl::StrFormat("the item '%s' has a piece %d+%d of %d bytes where the one at %d is due",
                          item, offset, bytes, item_bytes, at));
    }
    if (offset == at) turn = stream;
  }
  if (turn || at == item_bytes) return turn;
  return Corrupt(absl::StrFormat("no store has the bytes of the item '%s' from %d on, of %d", item,
                                 at, item_bytes));
}

}  // namespace ringwood
