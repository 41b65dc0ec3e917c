#include "server/store/store_directory.h"

#include <fcntl.h>
#include <rocksdb/file_system.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "server/store/database.h"
#include "server/store/private_folder.h"
#include "server/store/record/sealed.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

// FORMAT and NEWEST: a line, a key with its digest.
constexpr size_t kMaxSmallFile = 4096;

std::string FormatLine(int format = kStoreFormat) {
  return absl::StrFormat("ringwood-store %d\n", format);
}

bool HasStrangers(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().filename() != "FORMAT.new") return true;
  }
  return false;
}

// A small regular file's content. A pipe, a device, a link or more than kMaxSmallFile is Refused:
// none of them is ours, and none is waited for.
StatusOr<std::string> ReadSmallFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    return errno == ENOENT ? NotFound("there is no " + path) : FolderError("cannot read " + path);
  }
  std::string content(kMaxSmallFile + 1, '\0');
  struct stat about {};
  const bool regular = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  const ssize_t bytes = regular ? read(file, content.data(), content.size()) : 0;
  const Status failed = bytes < 0 ? FolderError("cannot read " + path) : OkStatus();
  close(file);
  RW_RETURN_IF_ERROR(failed);
  if (!regular || bytes > static_cast<ssize_t>(kMaxSmallFile)) {
    return Refused(path + " is not a small regular file: nothing of Ringwood's wrote it");
  }
  content.resize(static_cast<size_t>(bytes));
  return content;
}

}  // namespace

// Temporary file, sync, rename, sync of the directory.
Status ReplaceFile(const std::string& path, const std::string& content, rocksdb::Env* env) {
  const auto& files = env->GetFileSystem();
  const rocksdb::IOOptions plain;
  const std::string temporary = path + ".new";
  files->DeleteFile(temporary, plain, nullptr);  // of a crash; a link, and not what it names
  std::unique_ptr<rocksdb::FSWritableFile> file;
  rocksdb::IOStatus done = files->NewWritableFile(temporary, {}, &file, nullptr);
  if (done.ok()) done = file->Append(content, plain, nullptr);
  if (done.ok()) done = file->Fsync(plain, nullptr);
  if (done.ok()) done = file->Close(plain, nullptr);
  file.reset();
  if (done.ok()) done = files->RenameFile(temporary, path, plain, nullptr);
  RW_RETURN_IF_ERROR(FromRocks(done, "cannot write " + path));
  return SyncDirectory(fs::path(path).parent_path(), env);
}

Status EmptyDirectory(const std::string& directory, rocksdb::Env* env) {
  std::vector<std::string> names;
  rocksdb::Status done = env->CreateDirIfMissing(directory);
  if (done.ok()) done = env->GetChildren(directory, &names);
  for (const std::string& name : names) {
    if (done.ok()) done = env->DeleteFile(directory + "/" + name);
  }
  return FromRocks(done, "cannot empty " + directory);
}

Status WriteWitness(const std::string& directory, const std::string& newest, rocksdb::Env* env) {
  return ReplaceFile(directory + "/NEWEST", SealBytes(newest), env);
}

std::string ReadWitness(const std::string& directory) {
  const StatusOr<std::string> sealed = ReadSmallFile(directory + "/NEWEST");
  if (sealed.status().code() == StatusCode::kNotFound) return "";
  if (sealed.ok() && sealed->size() >= sizeof(uint64_t) &&
      SealBytes(sealed->substr(sizeof(uint64_t))) == *sealed) {
    return sealed->substr(sizeof(uint64_t));
  }
  Log(LogLevel::kWarning, directory + "/NEWEST is damaged; going by the database alone");
  return "";
}

namespace {

constexpr size_t kNamedStores = 3;  // in an error

// Why a directory without FORMAT is none. A service has a store for each of its jobs.
Status NoStore(const std::string& directory) {
  std::vector<std::string> jobs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory + "/jobs", error)) {
    if (fs::exists(entry.path() / "FORMAT", error)) jobs.push_back(entry.path().string());
  }
  if (jobs.empty()) {
    return Refused(directory +
                   " is not a Ringwood store (it has no FORMAT file): give another "
                   "--store directory");
  }
  std::sort(jobs.begin(), jobs.end());
  const size_t more = jobs.size() - std::min(jobs.size(), kNamedStores);
  jobs.resize(jobs.size() - more);
  std::string named = absl::StrJoin(jobs, ", ");
  if (more > 0) named += absl::StrFormat(" or one of %d more there", more);
  return Refused(directory + " is the directory of a service, whose jobs have a store each: give " +
                 "--store " + named);
}

// The format of a store that this version reads.
StatusOr<int> FormatOf(const std::string& directory) {
  std::error_code error;
  const fs::file_type type = fs::status(directory, error).type();
  if (type == fs::file_type::none) {
    return Refused("cannot look at " + directory + ": " + error.message());
  }
  if (type != fs::file_type::directory) {
    return NotFound("there is no store at " + directory + ": give the --store of the training run");
  }
  const StatusOr<std::string> content = ReadSmallFile(directory + "/FORMAT");
  if (content.status().code() == StatusCode::kNotFound || (content.ok() && content->empty())) {
    return NoStore(directory);
  }
  RW_RETURN_IF_ERROR(content.status());
  const std::string line = content->substr(0, content->find('\n'));
  for (int format = kOldestStoreFormat; format <= kDividedFormat; ++format) {
    if (line + "\n" == FormatLine(format)) return format;
  }
  return Refused(absl::StrFormat(
      "the store %s is of another version (\"%s\"; this Ringwood reads \"ringwood-store %d\" to "
      "%d): use the Ringwood that wrote it, or another --store directory",
      directory, absl::CHexEscape(line.substr(0, 80)), kOldestStoreFormat, kDividedFormat));
}

}  // namespace

Status CheckStore(const std::string& directory) { return FormatOf(directory).status(); }

namespace {

Status Prepare(const std::string& directory, bool raises_format, rocksdb::Env* env) {
  RW_ASSIGN_OR_RETURN(const std::string place, PlaceOf(directory, env));
  if (!HasStrangers(place)) {
    chmod(place.c_str(), 0700);  // it is empty; CheckOwner checks the result
    RW_RETURN_IF_ERROR(CheckOwner(place));
    if (access(place.c_str(), W_OK) != 0) return FolderError("cannot write to " + place);
    RW_RETURN_IF_ERROR(ReplaceFile(place + "/FORMAT", FormatLine(), env));
  }
  RW_ASSIGN_OR_RETURN(const int format, FormatOf(place));
  RW_RETURN_IF_ERROR(CheckOwner(place));
  if (format < kStoreFormat && raises_format) {
    Log(LogLevel::kInfo,
        absl::StrFormat(
            "the store %s is of format %d from now on (it was %d): older versions refuse it",
            directory, kStoreFormat, format));
    RW_RETURN_IF_ERROR(ReplaceFile(place + "/FORMAT", FormatLine(), env));
  }
  chmod(place.c_str(), 0700);
  for (const char* database : {"/coordinator", "/checkpoints"}) {
    RW_RETURN_IF_ERROR(MakeDirectory(place + database, 0700, env));
    RW_RETURN_IF_ERROR(CheckOwner(place + database));
  }
  return OkStatus();
}

}  // namespace

Status PrepareStore(const std::string& directory, rocksdb::Env* env) {
  return Prepare(directory, true, env);
}

Status PrepareStoreAhead(const std::string& directory) {
  const auto prepare = [&] { return Prepare(directory, false, rocksdb::Env::Default()); };
  return prepare().ok() ? OkStatus() : prepare();
}

Status MarkDivided(const std::string& directory, rocksdb::Env* env) {
  RW_ASSIGN_OR_RETURN(const int format, FormatOf(directory));
  if (format >= kDividedFormat) return OkStatus();
  std::error_code error;
  const std::string place = fs::canonical(directory, error);
  if (error) return Unavailable("cannot find " + directory + ": " + error.message());
  return ReplaceFile(place + "/FORMAT", FormatLine(kDividedFormat), env);
}

std::string PartsFolder(const std::string& directory, int index) {
  return absl::StrFormat("%s/parts/%d", directory, index);
}

Status PreparePartsFolder(const std::string& directory, int index, rocksdb::Env* env) {
  for (const std::string& folder : {directory + "/parts", PartsFolder(directory, index)}) {
    RW_RETURN_IF_ERROR(MakeDirectory(folder, 0700, env));
    RW_RETURN_IF_ERROR(CheckOwner(folder));
  }
  return OkStatus();
}

std::vector<std::string> PartsFolders(const std::string& directory) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory + "/parts", error)) {
    if (HasDatabase(entry.path())) folders.push_back(entry.path());
  }
  return folders;
}

bool HasDatabase(const std::string& database) {
  return access((database + "/CURRENT").c_str(), F_OK) == 0;
}

Status BeginAnew(const std::string& database, const std::string& meanwhile, rocksdb::Env* env) {
  std::error_code error;
  const std::string store = fs::path(database).parent_path();
  if (!fs::is_empty(database, error) || error) {
    if (!fs::is_directory(store, error) || HasStrangers(store)) {
      return Unavailable(absl::StrFormat(
          "the store %s was deleted, or its disk is gone: nothing is kept until it is back, %s. "
          "Mount its disk again; if it is lost, begin anew: rm -rf %s && mkdir %s",
          store, meanwhile, store, store));
    }
    RW_RETURN_IF_ERROR(PrepareStore(store, env));
  }
  Log(LogLevel::kWarning, database + " was deleted while the server ran: it begins anew");
  return OkStatus();
}

}  // namespace ringwood
