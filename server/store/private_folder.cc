#include "server/store/private_folder.h"

#include <rocksdb/file_system.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_format.h"
#include "server/store/database.h"

namespace ringwood {
namespace {

namespace fs = std::filesystem;

// Without what follows no link and has no parent of its own: a slash at the end, ".".
fs::path Named(const std::string& directory) {
  std::error_code error;
  const fs::path path = fs::absolute(directory, error).lexically_normal();
  if (error) return directory;
  return path.has_filename() ? path : path.parent_path();
}

// `directory` cannot be replaced by another user while we use it.
Status CheckPlace(const fs::path& directory) {
  struct stat about {};
  if (lstat(directory.c_str(), &about) == 0 && S_ISLNK(about.st_mode) &&
      about.st_uid != geteuid()) {
    return Refused(absl::StrFormat("%s is a link of user %d: give another --store directory",
                                   directory.string(), about.st_uid));
  }
  const fs::path parent = directory.parent_path();
  if (stat(parent.c_str(), &about) != 0 || (about.st_mode & S_IWOTH) == 0 ||
      (about.st_mode & S_ISVTX) != 0) {
    return OkStatus();
  }
  return Refused(parent.string() +
                 " can be written to by everybody, who could replace the store in it: give "
                 "another --store directory, or chmod +t it");
}

}  // namespace

Status FolderError(const std::string& what) {
  const std::string message = what + ": " + std::strerror(errno);
  if (errno == ENOSPC || errno == EDQUOT) return Unavailable(message + ": free space on this disk");
  return errno == EIO ? Unavailable(message) : Refused(message);
}

Status CheckOwner(const std::string& path) {
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0) return FolderError("cannot look at " + path);
  if (!S_ISDIR(about.st_mode)) return Refused(path + " is not a folder");
  if (about.st_uid != geteuid()) {
    return Refused(absl::StrFormat(
        "%s belongs to user %d, this server is user %d: who writes there could replace "
        "checkpoints; "
        "give another --store directory, or chown -R %d this one if you trust what is in it",
        path, about.st_uid, geteuid(), geteuid()));
  }
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) == 0) return OkStatus();
  return Refused(path +
                 " can be written to by other users, who could replace checkpoints: give another "
                 "--store directory, or chmod -R go-w this one if you trust what is in it");
}

Status SyncDirectory(const std::string& directory, rocksdb::Env* env) {
  const rocksdb::IOOptions plain;
  std::unique_ptr<rocksdb::FSDirectory> handle;
  rocksdb::IOStatus done = env->GetFileSystem()->NewDirectory(directory, plain, &handle, nullptr);
  if (done.ok()) done = handle->Fsync(plain, nullptr);
  return FromRocks(done, "cannot sync " + directory);
}

Status MakeDirectory(const std::string& directory, mode_t mode, rocksdb::Env* env) {
  const fs::path path = directory;
  std::error_code error;
  if (fs::is_directory(path, error)) return OkStatus();
  const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (parent != path) RW_RETURN_IF_ERROR(MakeDirectory(parent, 0777, env));
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return FolderError("cannot create the store directory " + path.string());
  }
  return SyncDirectory(parent, env);
}

StatusOr<std::string> PlaceOf(const std::string& directory, rocksdb::Env* env) {
  RW_RETURN_IF_ERROR(MakeDirectory(directory, 0700, env));
  RW_RETURN_IF_ERROR(CheckPlace(Named(directory)));
  std::error_code error;
  const std::string place = fs::canonical(directory, error);  // --store may name a link to it
  if (error) return Refused("cannot find " + directory + ": " + error.message());
  RW_RETURN_IF_ERROR(CheckPlace(place));
  return place;
}

Status PreparePrivateFolder(const std::string& directory, const std::string& inside,
                            rocksdb::Env* env) {
  RW_ASSIGN_OR_RETURN(const std::string place, PlaceOf(directory, env));
  const std::string folder = place + "/" + inside;
  std::error_code error;
  if (!fs::exists(folder, error) && !fs::exists(place + "/FORMAT", error)) {
    if (!fs::is_empty(place, error) || error) {
      return Refused(directory + " has other files in it, and no folder " + inside +
                     ": give another --store directory");
    }
    chmod(place.c_str(), 0700);  // it is empty; CheckOwner checks the result
  }
  RW_RETURN_IF_ERROR(CheckOwner(place));
  if (access(place.c_str(), W_OK) != 0) return FolderError("cannot write to " + place);
  chmod(place.c_str(), 0700);
  RW_RETURN_IF_ERROR(MakeDirectory(folder, 0700, env));
  return CheckOwner(folder);
}

}  // namespace ringwood
