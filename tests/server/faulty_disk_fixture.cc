#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "tests/server/checkpoints/faulty_disk.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

uint64_t InodeOf(const std::string& path) {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0 ? about.st_ino : 0;
}

// What a file is to the store.
std::string KindOf(const std::string& path) {
  const std::string name = fs::path(path).filename();
  for (const char* start : {"MANIFEST", "CURRENT", "OPTIONS", "NEWEST", "FORMAT", "IDENTITY"}) {
    if (absl::StartsWith(name, start)) return start;
  }
  if (absl::EndsWith(name, ".sst")) return "table";
  if (absl::EndsWith(name, ".log")) return "log";
  return absl::EndsWith(name, ".dbtmp") ? "temporary" : "directory";
}

bool IsChatter(const std::string& path) {
  const std::string name = fs::path(path).filename();
  return name == "LOG" || name == "LOCK" || absl::StartsWith(name, "LOG.");
}

class FaultyFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file, FaultyDisk* disk, std::string path)
      : FSWritableFileOwnerWrapper(std::move(file)),
        disk_(disk),
        path_(std::move(path)),
        inode_(InodeOf(path_)) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    IOStatus error;
    switch (disk_->Take("append", path_, true, &error)) {
      case FaultyDisk::Step::kDone:
        return target()->Append(data, options, debug);
      case FaultyDisk::Step::kHalf:
        target()->Append({data.data(), data.size() / 2}, options, debug);
        return error;
      case FaultyDisk::Step::kFails:
        break;
    }
    return error;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    IOStatus error;
    if (disk_->Take("sync", path_, false, &error) != FaultyDisk::Step::kDone) return error;
    disk_->Synced(inode_);
    return IOStatus::OK();
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    IOStatus error;
    const bool done = disk_->Take("close", path_, false, &error) == FaultyDisk::Step::kDone;
    const IOStatus closed = target()->Close(options, debug);
    return done ? closed : error;
  }

 private:
  FaultyDisk* const disk_;
  const std::string path_;
  const uint64_t inode_;
};

class SlowFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  SlowFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, FaultyDisk* disk)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), disk_(disk) {}
  IOStatus Read(uint64_t offset, size_t bytes, const IOOptions& options, rocksdb::Slice* result,
                char* scratch, IODebugContext* debug) const override {
    disk_->Read();
    return target()->Read(offset, bytes, options, result, scratch, debug);
  }

 private:
  FaultyDisk* const disk_;
};

class SlowSequentialFile : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  SlowSequentialFile(std::unique_ptr<rocksdb::FSSequentialFile> file, FaultyDisk* disk)
      : FSSequentialFileOwnerWrapper(std::move(file)), disk_(disk) {}
  IOStatus Read(size_t bytes, const IOOptions& options, rocksdb::Slice* result, char* scratch,
                IODebugContext* debug) override {
    disk_->Read();
    return target()->Read(bytes, options, result, scratch, debug);
  }

 private:
  FaultyDisk* const disk_;
};

class FaultyDirectory : public rocksdb::FSDirectoryWrapper {
 public:
  FaultyDirectory(std::unique_ptr<rocksdb::FSDirectory> directory, std::function<IOStatus()> sync)
      : FSDirectoryWrapper(std::move(directory)), sync_(std::move(sync)) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return sync_(); }
  IOStatus FsyncWithDirOptions(const IOOptions&, IODebugContext*,
                               const rocksdb::DirFsyncOptions&) override {
    return sync_();
  }

 private:
  const std::function<IOStatus()> sync_;
};

}  // namespace

FaultyDisk::FaultyDisk(const std::string& root)
    : FileSystemWrapper(rocksdb::FileSystem::Default()),
      root_(fs::path(root).lexically_normal()),
      kept_(root_ + ".kept") {
  absl::MutexLock lock(&mutex_);
  AllIsDurable();
}

std::shared_ptr<FaultyDisk> FaultyDisk::Make(const std::string& root) {
  std::shared_ptr<FaultyDisk> disk(new FaultyDisk(root));
  // The Env borrows what owns it.
  disk->env_ = rocksdb::NewCompositeEnv(
      std::shared_ptr<rocksdb::FileSystem>(std::shared_ptr<void>(), disk.get()));
  return disk;
}

void FaultyDisk::Plan(std::vector<DiskFault> faults) {
  absl::MutexLock lock(&mutex_);
  faults_ = std::move(faults);
}

uint64_t FaultyDisk::operations() const {
  absl::MutexLock lock(&mutex_);
  return operations_;
}

uint64_t FaultyDisk::reads() const {
  absl::MutexLock lock(&mutex_);
  return reads_;
}

std::string FaultyDisk::hit() const {
  absl::MutexLock lock(&mutex_);
  return hit_;
}

bool FaultyDisk::crashed() const {
  absl::MutexLock lock(&mutex_);
  return crashed_;
}

std::map<std::string, uint64_t> FaultyDisk::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

FaultyDisk::Step FaultyDisk::Take(const std::string& what, const std::string& path, bool takes_room,
                                  IOStatus* error) {
  absl::MutexLock lock(&mutex_);
  if (crashed_) {
    *error = IOStatus::IOError("the machine has crashed");
    return Step::kFails;
  }
  const uint64_t number = ++operations_;
  ++counts_[KindOf(path)];
  const auto fault = std::find_if(faults_.begin(), faults_.end(), [&](const DiskFault& each) {
    return number >= each.at && number - each.at < each.count &&
           (takes_room || each.kind != DiskFault::kNoSpace);
  });
  if (fault == faults_.end()) return Step::kDone;
  const std::string name = absl::StrFormat("operation %d: %s %s", number, what,
                                           fs::path(path).lexically_relative(root_).string());
  if (hit_.empty()) hit_ = name;
  crashed_ = fault->kind == DiskFault::kCrash;
  *error = fault->kind == DiskFault::kNoSpace ? IOStatus::NoSpace(name) : IOStatus::IOError(name);
  if (fault->kind == DiskFault::kNoSpace) error->SetRetryable(true);  // as RocksDB does
  const bool torn = fault->kind == DiskFault::kTorn || fault->kind == DiskFault::kCrash;
  return torn && what == "append" ? Step::kHalf : Step::kFails;
}

void FaultyDisk::Read() {
  absl::MutexLock lock(&mutex_);
  ++reads_;
}

void FaultyDisk::Synced(uint64_t inode) {
  absl::MutexLock lock(&mutex_);
  std::error_code error;
  const uintmax_t bytes = fs::file_size(kept_ + "/" + std::to_string(inode), error);
  if (!error) synced_[inode] = bytes;
}

// The names of a directory as they are now; their files stay readable when the names go.
FaultyDisk::Names FaultyDisk::Look(const std::string& directory) {
  Names names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string path = entry.path();
    if (IsChatter(path)) continue;
    const uint64_t inode = InodeOf(path);
    if (inode == 0) continue;  // RocksDB's other thread has just removed it
    names[entry.path().filename()] = inode;
    if (entry.is_regular_file(error)) {
      link(path.c_str(), (kept_ + "/" + std::to_string(inode)).c_str());  // or it is there
    }
  }
  return names;
}

void FaultyDisk::Changed(const std::string& path) {
  const std::string directory = fs::path(path).lexically_normal().parent_path();
  absl::MutexLock lock(&mutex_);
  auto& history = names_[directory];
  if (history.empty()) history.emplace_back();  // never synced: nothing of it is durable
  history.push_back(Look(directory));
}

void FaultyDisk::DirectorySynced(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  const std::string directory = fs::path(path).lexically_normal();
  names_[directory] = {Look(directory)};
}

void FaultyDisk::AllIsDurable() {
  fs::remove_all(kept_);
  fs::create_directories(kept_);
  names_ = {{root_, {Look(root_)}}};
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    if (entry.is_directory()) names_[entry.path()] = {Look(entry.path())};
  }
  synced_.clear();
  for (const auto& entry : fs::directory_iterator(kept_)) {
    synced_[std::stoull(entry.path().filename())] = entry.file_size();
  }
}

void FaultyDisk::PowerLoss(Unsynced unsynced, uint64_t seed) {
  Random random(seed);
  absl::MutexLock lock(&mutex_);
  const std::string after = root_ + ".after";
  Rebuild(root_, after, unsynced, &random);
  fs::remove_all(root_);
  fs::rename(after, root_);
  AllIsDurable();
  faults_.clear();
  crashed_ = false;
  hit_.clear();
}

void FaultyDisk::Rebuild(const std::string& from, const std::string& to, Unsynced unsynced,
                         Random* random) {
  fs::create_directory(to);
  fs::permissions(to, fs::perms::owner_all);
  std::vector<Names> history = names_[from];
  if (history.empty()) history.emplace_back();
  history.push_back(Look(from));
  const size_t chosen = unsynced == Unsynced::kGoes    ? 0
                        : unsynced == Unsynced::kStays ? history.size() - 1
                                                       : random->Below(history.size());
  for (const auto& [name, inode] : history[chosen]) {
    const std::string old = from + "/" + name;
    if (fs::is_directory(old)) {
      Rebuild(old, to + "/" + name, unsynced, random);
    } else {
      Copy(inode, to + "/" + name, unsynced, random);
    }
  }
}

void FaultyDisk::Copy(uint64_t inode, const std::string& to, Unsynced unsynced, Random* random) {
  std::ifstream file(kept_ + "/" + std::to_string(inode), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const size_t synced = std::min<size_t>(synced_[inode], bytes.size()), whole = bytes.size();
  if (unsynced == Unsynced::kGoes) bytes.resize(synced);
  if (unsynced == Unsynced::kSomeStays) bytes.resize(synced + random->Below(whole - synced + 1));
  std::ofstream(to, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

IOStatus FaultyDisk::NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                       IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSSequentialFile> opened;
  const IOStatus status = target()->NewSequentialFile(path, options, &opened, debug);
  if (status.ok()) *file = std::make_unique<SlowSequentialFile>(std::move(opened), this);
  return status;
}

IOStatus FaultyDisk::NewRandomAccessFile(const std::string& path,
                                         const rocksdb::FileOptions& options,
                                         std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                         IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSRandomAccessFile> opened;
  const IOStatus status = target()->NewRandomAccessFile(path, options, &opened, debug);
  if (status.ok()) *file = std::make_unique<SlowFile>(std::move(opened), this);
  return status;
}

IOStatus FaultyDisk::NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                     std::unique_ptr<rocksdb::FSWritableFile>* file,
                                     IODebugContext* debug) {
  IOStatus error;
  if (Take("create", path, true, &error) != Step::kDone) return error;
  std::unique_ptr<rocksdb::FSWritableFile> opened;
  const IOStatus status = target()->NewWritableFile(path, options, &opened, debug);
  if (!status.ok()) return status;
  Changed(path);
  *file = std::make_unique<FaultyFile>(std::move(opened), this, path);
  return status;
}

IOStatus FaultyDisk::ReopenWritableFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSWritableFile>* file,
                                        IODebugContext* debug) {
  IOStatus error;
  if (Take("reopen", path, true, &error) != Step::kDone) return error;
  std::unique_ptr<rocksdb::FSWritableFile> opened;
  const IOStatus status = target()->ReopenWritableFile(path, options, &opened, debug);
  if (!status.ok()) return status;
  Changed(path);
  *file = std::make_unique<FaultyFile>(std::move(opened), this, path);
  return status;
}

IOStatus FaultyDisk::NewDirectory(const std::string& path, const IOOptions& options,
                                  std::unique_ptr<rocksdb::FSDirectory>* directory,
                                  IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> opened;
  const IOStatus status = target()->NewDirectory(path, options, &opened, debug);
  if (!status.ok()) return status;
  *directory = std::make_unique<FaultyDirectory>(std::move(opened), [this, path] {
    IOStatus error;
    if (Take("sync", path, false, &error) == Step::kDone) DirectorySynced(path);
    return error;
  });
  return status;
}

IOStatus FaultyDisk::CreateDir(const std::string& path, const IOOptions& options,
                               IODebugContext* debug) {
  IOStatus error;
  if (Take("make", path, true, &error) != Step::kDone) return error;
  const IOStatus status = target()->CreateDir(path, options, debug);
  Changed(path);
  return status;
}

IOStatus FaultyDisk::CreateDirIfMissing(const std::string& path, const IOOptions& options,
                                        IODebugContext* debug) {
  return fs::is_directory(path) ? IOStatus::OK() : CreateDir(path, options, debug);
}

IOStatus FaultyDisk::DeleteFile(const std::string& path, const IOOptions& options,
                                IODebugContext* debug) {
  if (IsChatter(path)) return target()->DeleteFile(path, options, debug);
  IOStatus error;
  if (Take("delete", path, false, &error) != Step::kDone) return error;
  const IOStatus status = target()->DeleteFile(path, options, debug);
  Changed(path);
  return status;
}

IOStatus FaultyDisk::Truncate(const std::string& path, size_t size, const IOOptions& options,
                              IODebugContext* debug) {
  IOStatus error;
  if (Take("truncate", path, false, &error) != Step::kDone) return error;
  return target()->Truncate(path, size, options, debug);
}

IOStatus FaultyDisk::RenameFile(const std::string& from, const std::string& to,
                                const IOOptions& options, IODebugContext* debug) {
  if (IsChatter(from)) return target()->RenameFile(from, to, options, debug);
  IOStatus error;
  if (Take("rename", to, false, &error) != Step::kDone) return error;
  const IOStatus status = target()->RenameFile(from, to, options, debug);
  Changed(to);  // within one directory, as all of a store's renames are
  return status;
}

IOStatus FaultyDisk::LinkFile(const std::string& from, const std::string& to,
                              const IOOptions& options, IODebugContext* debug) {
  IOStatus error;
  if (Take("link", to, false, &error) != Step::kDone) return error;
  const IOStatus status = target()->LinkFile(from, to, options, debug);
  Changed(to);
  return status;
}

}  // namespace ringwood
