#include "jobs/store_quota.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_format.h"
#include "base/units.h"

namespace ringwood {

uint64_t BytesBelow(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  std::filesystem::recursive_directory_iterator each(directory, error), end;
  while (!error && each != end) {
    std::error_code gone;  // a file may be removed at any time
    const bool file = each->is_regular_file(gone);
    const uint64_t size = file ? each->file_size(gone) : 0;
    if (!gone) bytes += size;
    each.increment(error);
  }
  return bytes;
}

void StoreQuota::Measure() {
  if (most_bytes_ != 0) used_ = BytesBelow(directory_);
}

Status StoreQuota::Take(uint64_t bytes) {
  if (most_bytes_ == 0) return OkStatus();
  if (used_.fetch_add(bytes) + bytes <= most_bytes_) return OkStatus();
  return Exhausted(absl::StrFormat(
      "the store %s may take %s, and this checkpoint needs more beside those that are kept: keep "
      "fewer, save less, or raise the limit (--max-store, or store= of the job)",
      directory_, FormatBytes(static_cast<double>(most_bytes_))));
}

}  // namespace ringwood
