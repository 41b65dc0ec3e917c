#include "doctor/disk_meter.h"

#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/median.h"
#include "base/random.h"

namespace ringwood {
namespace {

constexpr size_t kChunkBytes = 4 << 20;
constexpr uint64_t kMostWritten = 64 << 20;
constexpr double kWritingSeconds = 1;  // no chunk is begun after it
constexpr size_t kShortBytes = 4096;
constexpr int kSyncs = 5;

// The first part of the path that exists but is no folder, so that no store can be below it; "":
// there is none.
std::string FirstNoFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::path part;
  for (const auto& name : std::filesystem::absolute(path, error)) {
    part /= name;
    if (!std::filesystem::exists(std::filesystem::symlink_status(part, error))) return "";
    if (!std::filesystem::is_directory(part, error)) return part.string();
  }
  return "";
}

std::string NearestFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(path, error);
  while (!std::filesystem::is_directory(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return folder.string();
}

// False: errno says why. A file's write is short only where room ends, and sets no errno then.
bool WriteAll(int file, const std::vector<uint64_t>& words, size_t bytes) {
  const ssize_t wrote = ::write(file, words.data(), bytes);
  if (wrote >= 0 && wrote < static_cast<ssize_t>(bytes)) errno = ENOSPC;
  return wrote == static_cast<ssize_t>(bytes);
}

// Random bytes: a file system that compresses is not to look faster than it is.
bool WriteAndTime(int file, DiskFacts* facts) {
  std::vector<uint64_t> words(kChunkBytes / sizeof(uint64_t));
  Random random(Unpredictable());
  for (uint64_t& word : words) word = random.Next();
  const TimePoint begin = Now();
  uint64_t written = 0;
  while (written < kMostWritten && Now() - begin < Seconds(kWritingSeconds)) {
    if (!WriteAll(file, words, kChunkBytes)) return false;
    written += kChunkBytes;
  }
  if (::fdatasync(file) != 0) return false;
  facts->write_rate = static_cast<double>(written) / ToSeconds(Now() - begin);
  std::vector<double> seconds;
  for (int i = 0; i < kSyncs; ++i) {
    const TimePoint start = Now();
    if (!WriteAll(file, words, kShortBytes) || ::fdatasync(file) != 0) return false;
    seconds.push_back(ToSeconds(Now() - start));
  }
  facts->sync_seconds = Median(seconds);
  return true;
}

}  // namespace

std::string FileSystemName(uint64_t type) {
  static constexpr struct {
    uint64_t type;
    const char* name;
  } kNames[] = {{0xEF53, "ext4"},      {0x58465342, "xfs"},    {0x9123683E, "btrfs"},
                {0x01021994, "tmpfs"}, {0x6969, "nfs"},        {0x794C7630, "overlay"},
                {0x2FC12FC1, "zfs"},   {0x0BD00BD0, "lustre"}, {0x65735546, "fuse"},
                {0xFE534D42, "smb"},   {0x19830326, "beegfs"}, {0x47504653, "gpfs"},
                {0x00C36400, "ceph"},  {0x01021997, "9p"},     {0xF2F52010, "f2fs"}};
  for (const auto& known : kNames) {
    if (known.type == type) return known.name;
  }
  return absl::StrFormat("%x", type);
}

DiskFacts MeasureDisk(const std::string& path) {
  DiskFacts facts;
  facts.path = path;
  if (const std::string other = FirstNoFolder(path); !other.empty()) {
    facts.error = other + " is no folder";
    return facts;
  }
  const std::string folder = NearestFolder(path);
  const std::string name = absl::StrFormat("%s/.ringwood-doctor-%016x", folder, Unpredictable());
  const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    facts.error = absl::StrFormat("cannot write into %s: %s", folder, std::strerror(errno));
    return facts;
  }
  ::unlink(name.c_str());
  struct statfs state {};
  if (::fstatfs(file, &state) == 0) {
    facts.file_system = FileSystemName(static_cast<uint64_t>(state.f_type) & 0xFFFFFFFF);
    facts.free_bytes = static_cast<double>(state.f_bavail) * static_cast<double>(state.f_bsize);
  }
  if (!WriteAndTime(file, &facts)) {
    facts.error = absl::StrFormat("cannot write into %s: %s", folder, std::strerror(errno));
  }
  ::close(file);
  return facts;
}

}  // namespace ringwood
