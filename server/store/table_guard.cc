#include "server/store/table_guard.h"

#include <rocksdb/file_system.h>

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/match.h"

namespace ringwood {
namespace {

using InDoubt = std::shared_ptr<std::atomic<bool>>;

class WatchedManifest : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WatchedManifest(std::unique_ptr<rocksdb::FSWritableFile> file, InDoubt in_doubt)
      : FSWritableFileOwnerWrapper(std::move(file)), in_doubt_(std::move(in_doubt)) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    return Watched(target()->Append(data, options, debug));
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& checksum,
                           rocksdb::IODebugContext* debug) override {
    return Watched(target()->Append(data, options, checksum, debug));
  }
  rocksdb::IOStatus Flush(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    return Watched(target()->Flush(options, debug));
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override {
    return Watched(target()->Sync(options, debug));
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    return Watched(target()->Fsync(options, debug));
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override {
    return Watched(target()->Close(options, debug));
  }

 private:
  rocksdb::IOStatus Watched(rocksdb::IOStatus status) {
    if (!status.ok()) *in_doubt_ = true;
    return status;
  }
  const InDoubt in_doubt_;
};

class GuardedFiles : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "GuardedFiles"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    const rocksdb::IOStatus status = target()->NewWritableFile(path, options, file, debug);
    if (status.ok() && absl::StrContains(path, "/MANIFEST-")) {
      *file = std::make_unique<WatchedManifest>(std::move(*file), in_doubt_);
    }
    return status;
  }

  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    if (*in_doubt_ && absl::EndsWith(path, ".sst")) return rocksdb::IOStatus::OK();
    return target()->DeleteFile(path, options, debug);
  }

 private:
  const InDoubt in_doubt_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

std::unique_ptr<rocksdb::Env> GuardTables(rocksdb::Env* env) {
  return rocksdb::NewCompositeEnv(std::make_shared<GuardedFiles>(env->GetFileSystem()));
}

}  // namespace ringwood
