#include "server/store/database.h"

#include <rocksdb/listener.h>
#include <rocksdb/status.h>
#include <rocksdb/write_batch.h>

#include <cstdarg>
#include <cstdio>
#include <functional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "base/log.h"

namespace ringwood {
namespace {

// Of the log and of each table file in the making; what is kept is chunks that come as whole files,
// and records of a few hundred bytes.
constexpr size_t kWriteBufferBytes = 1 << 20;
constexpr size_t kMaxManifestFileBytes = 4 << 20;
constexpr size_t kMaxWords = 1024;  // characters of a line of RocksDB's

// RocksDB would look for free space by itself, some seconds apart.
class MendedByUs : public rocksdb::EventListener {
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* by_itself) override {
    *by_itself = false;
  }
};

// What RocksDB says of a database goes to our log. Its own file for it (LOG) lies on the database's
// disk, and when a line does not fit there the next one ends the process (RocksDB 7.8, an
// assertion).
class Words : public rocksdb::Logger {
 public:
  Words() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char text[kMaxWords];
    std::vsnprintf(text, sizeof text, format, arguments);
    Log(LogLevel::kDebug, std::string("RocksDB: ") + text);
  }
};

bool IsLocked(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  return absl::StrContains(text, "lock hold by current process") ||
         absl::StrContains(text, "While lock file");
}

}  // namespace

Status FromRocks(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return OkStatus();
  const std::string text = status.ToString();
  const std::string message = what + ": " + text;
  if (IsLocked(status)) {
    return Refused(what + " is in use by another process (" + text +
                   "): stop that server, or give another --store directory");
  }
  if (status.IsNoSpace()) return Unavailable(message + ": free space on this disk");
  if (status.IsCorruption()) return Corrupt(message);
  if (status.IsNotFound()) return NotFound(message);
  return Unavailable(message);
}

rocksdb::Options SafeOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.max_open_files = 256;
  options.listeners.push_back(std::make_shared<MendedByUs>());
  options.allow_fallocate = false;
  options.max_bgerror_resume_count = 0;
  // What is not logged need not last. After a flush that a full disk refused, RocksDB 7.8 ends the
  // process with an assertion if it is flushed once more.
  options.avoid_flush_during_shutdown = true;
  options.write_buffer_size = kWriteBufferBytes;
  options.max_manifest_file_size = kMaxManifestFileBytes;
  options.info_log = std::make_shared<Words>();
  options.stats_dump_period_sec = 0;
  return options;
}

rocksdb::WriteOptions Unlogged() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return options;
}

rocksdb::Status WriteDurably(rocksdb::DB* db, rocksdb::WriteBatch* batch) {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  return db->Write(synced, batch);
}

namespace {

Status OpenUnlocked(const std::string& what, const LockPatience& patience,
                    const std::function<rocksdb::Status()>& open) {
  rocksdb::Status opened;
  RW_RETURN_IF_ERROR(AwaitLock(what, patience, [&] {
    opened = open();
    return !IsLocked(opened);
  }));
  return FromRocks(opened, what);
}

}  // namespace

StatusOr<std::unique_ptr<rocksdb::DB>> OpenDatabase(const rocksdb::Options& options,
                                                    const std::string& directory,
                                                    const std::string& what,
                                                    const LockPatience& patience) {
  rocksdb::DB* opened = nullptr;
  RW_RETURN_IF_ERROR(
      OpenUnlocked(what, patience, [&] { return rocksdb::DB::Open(options, directory, &opened); }));
  return std::unique_ptr<rocksdb::DB>(opened);
}

StatusOr<Database> OpenDatabase(const rocksdb::Options& options, const std::string& directory,
                                const rocksdb::ColumnFamilyDescriptor& second,
                                const std::string& what, const LockPatience& patience) {
  rocksdb::Options both = options;
  both.create_missing_column_families = true;
  rocksdb::DB* opened = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  RW_RETURN_IF_ERROR(OpenUnlocked(what, patience, [&] {
    return rocksdb::DB::Open(both, directory, {{rocksdb::kDefaultColumnFamilyName, both}, second},
                             &families, &opened);
  }));
  std::unique_ptr<rocksdb::DB> db(opened);
  db->DestroyColumnFamilyHandle(families[0]);  // the database has one of its own
  return Database{std::move(db), families[1]};
}

}  // namespace ringwood
