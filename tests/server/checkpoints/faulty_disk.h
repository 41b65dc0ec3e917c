// A disk that fails as it is told, under a store: a file system of RocksDB over one folder.
//
// It numbers the operations that change something (create, append, sync, close, rename, link,
// delete, truncate, make a directory, sync a directory) from 1, and does the planned thing at one
// of them. It knows what is durable as a strict file system keeps it: of a file what was there at
// its last sync, of a directory the names that it had at its last sync. PowerLoss goes back to
// that.
//
// It syncs nothing itself, so that a test may have thousands of crashes. RocksDB's own chatter
// (LOG) passes by.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/random.h"

namespace ringwood {

struct DiskFault {
  enum Kind {
    kError,    // an I/O error
    kNoSpace,  // of what takes room; the rest works
    kTorn,     // an append that writes its first half, and fails; else an error
    kCrash,    // this one and all that come after it do not happen
  };
  Kind kind = kError;
  uint64_t at = 0;     // the first operation that it hits
  uint64_t count = 1;  // so many operations, one after the other
};

// What a power loss leaves of that which was not synced. Some: of a directory any state since its
// last sync, of a file any length since then.
enum class Unsynced { kStays, kGoes, kSomeStays };

class FaultyDisk : public rocksdb::FileSystemWrapper {
 public:
  // `root`: a folder of the test's, whose content counts as durable. Beside it comes `root`.kept.
  static std::shared_ptr<FaultyDisk> Make(const std::string& root);

  rocksdb::Env* env() { return env_.get(); }  // for a store; this disk outlives it

  void Plan(std::vector<DiskFault> faults);
  void Heal() { Plan({}); }

  uint64_t operations() const;
  uint64_t reads() const;
  std::string hit() const;  // the first operation that failed, "" for none
  bool crashed() const;
  std::map<std::string, uint64_t> counts() const;  // operations by kind of file

  // Puts the folder into the state after a crash; nobody has a file of it open. What is left is
  // durable, and the disk works again.
  void PowerLoss(Unsynced unsynced, uint64_t seed);

  // For its files: counts an operation, and says how it ends.
  enum class Step { kDone, kFails, kHalf };
  Step Take(const std::string& what, const std::string& path, bool takes_room,
            rocksdb::IOStatus* error);
  void Synced(uint64_t inode);
  void Read();

  // rocksdb::FileSystem
  const char* Name() const override { return "FaultyDisk"; }
  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDir(const std::string& path, const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus CreateDirIfMissing(const std::string& path, const rocksdb::IOOptions& options,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Truncate(const std::string& path, size_t size,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;

 private:
  using Names = std::map<std::string, uint64_t>;  // of a directory: inodes of its entries

  explicit FaultyDisk(const std::string& root);
  void Changed(const std::string& path);  // a name of a directory
  void DirectorySynced(const std::string& path);
  Names Look(const std::string& directory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Rebuild(const std::string& from, const std::string& to, Unsynced unsynced, Random* random)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Copy(uint64_t inode, const std::string& to, Unsynced unsynced, Random* random)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AllIsDurable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string root_, kept_;  // kept_: a link to every file that there was since the last loss
  std::unique_ptr<rocksdb::Env> env_;
  mutable absl::Mutex mutex_;
  std::vector<DiskFault> faults_ ABSL_GUARDED_BY(mutex_);
  uint64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t reads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool crashed_ ABSL_GUARDED_BY(mutex_) = false;
  std::string hit_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> counts_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> synced_ ABSL_GUARDED_BY(mutex_);  // bytes of an inode
  // By directory: its names at the last sync, and after each change since then.
  std::map<std::string, std::vector<Names>> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
