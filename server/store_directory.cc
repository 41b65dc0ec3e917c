#include "server/store_directory.h"

#include <fcntl.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/status.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "server/sealed.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

std::string FormatLine() { return absl::StrFormat("ringwood-store %d\n", kStoreFormat); }

// A full or failing disk may be mended while the job goes on or is started again; what the path
// itself forbids is configuration.
Status Errno(const std::string& what) {
  const std::string message = what + ": " + std::strerror(errno);
  if (errno == ENOSPC || errno == EDQUOT) return Unavailable(message + ": free space on this disk");
  return errno == EIO ? Unavailable(message) : Refused(message);
}

// RocksDB would look for free space by itself, some seconds apart, and refuse Resume meanwhile.
class ResumedByUs : public rocksdb::EventListener {
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* by_itself) override {
    *by_itself = false;
  }
};

bool HasStrangers(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().filename() != "FORMAT.new") return true;
  }
  return false;
}

}  // namespace

// Temporary file, sync, rename, sync of the directory.
Status ReplaceFile(const std::string& path, const std::string& content) {
  const std::string directory = fs::path(path).parent_path(), temporary = path + ".new";
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return Errno("cannot write to " + directory);
  const bool written =
      write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
      fsync(file) == 0;
  const Status failed = written ? OkStatus() : Errno("cannot write " + temporary);
  close(file);
  RW_RETURN_IF_ERROR(failed);
  if (rename(temporary.c_str(), path.c_str()) != 0) return Errno("cannot rename " + temporary);
  const int handle = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return Errno("cannot open " + directory);
  const bool synced = fsync(handle) == 0;
  close(handle);
  return synced ? OkStatus() : Errno("cannot sync " + directory);
}

Status WriteWitness(const std::string& directory, const std::string& newest) {
  return ReplaceFile(directory + "/NEWEST", SealBytes(newest));
}

std::string ReadWitness(const std::string& directory) {
  std::ifstream file(directory + "/NEWEST", std::ios::binary);
  if (!file) return "";
  const std::string sealed{std::istreambuf_iterator<char>(file), {}};
  if (sealed.size() >= sizeof(uint64_t) && SealBytes(sealed.substr(sizeof(uint64_t))) == sealed) {
    return sealed.substr(sizeof(uint64_t));
  }
  Log(LogLevel::kWarning, directory + "/NEWEST is damaged; going by the database alone");
  return "";
}

Status CheckStore(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return NotFound("there is no store at " + directory + ": give the --store of the training run");
  }
  std::ifstream file(directory + "/FORMAT");
  std::string line;
  if (!file || !std::getline(file, line)) {
    return Refused(directory +
                   " is not a Ringwood store (it has no FORMAT file): give another "
                   "--store directory");
  }
  if (line + "\n" == FormatLine()) return OkStatus();
  return Refused(absl::StrFormat(
      "the store %s is of another version (\"%s\"; this Ringwood reads \"ringwood-store %d\"): use "
      "the Ringwood that wrote it, or another --store directory",
      directory, line.substr(0, 80), kStoreFormat));
}

Status PrepareStore(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return Refused("cannot create the store directory " + directory + ": " + error.message());
  }
  if (!fs::exists(directory + "/FORMAT", error) && !HasStrangers(directory)) {
    RW_RETURN_IF_ERROR(ReplaceFile(directory + "/FORMAT", FormatLine()));
  }
  return CheckStore(directory);
}

Status FromRocks(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return OkStatus();
  const std::string text = status.ToString();
  const std::string message = what + ": " + text;
  if (absl::StrContains(text, "lock hold by current process") ||
      absl::StrContains(text, "While lock file")) {
    return Refused(what + " is in use by another process (" + text +
                   "): stop that server, or give another --store directory");
  }
  if (status.IsNoSpace()) return Unavailable(message + ": free space on this disk");
  if (status.IsCorruption()) return Corrupt(message);
  if (status.IsNotFound()) return NotFound(message);
  return Unavailable(message);
}

rocksdb::Options SafeOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.keep_log_file_num = 2;  // its own chatter, not data
  options.max_open_files = 256;
  options.listeners.push_back(std::make_shared<ResumedByUs>());
  return options;
}

}  // namespace ringwood
