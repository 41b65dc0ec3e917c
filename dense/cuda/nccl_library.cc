#include "dense/cuda/nccl_library.h"

#include <dlfcn.h>

#include <vector>

#include "absl/strings/str_format.h"

namespace ringwood::nccl {
namespace {

// The first of `paths` that loads; what the loader says about the others goes to `reasons`.
void* Open(const std::vector<std::string>& paths, std::string* found, std::string* reasons) {
  for (const std::string& path : paths) {
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
      *found = path;
      return handle;
    }
    *reasons += std::string(reasons->empty() ? "" : "; ") + dlerror();
  }
  return nullptr;
}

template <typename Function>
Status Find(void* handle, const std::string& path, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  if (*function != nullptr) return OkStatus();
  return Refused(absl::StrFormat("%s has no %s: NCCL 2.14 or newer is needed", path, name));
}

}  // namespace

StatusOr<Library> Load(const std::string& path) {
  const std::vector<std::string> paths =
      path.empty() ? std::vector<std::string>{"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"}
                   : std::vector<std::string>{path};
  Library library;
  std::string reasons;
  void* const handle = Open(paths, &library.path, &reasons);
  if (handle == nullptr) {
    return Refused("NCCL was not found (" + reasons +
                   "): install it or name libnccl.so.2, which PyTorch's CUDA wheels carry");
  }
  int (*get_version)(int*) = nullptr;
  RW_RETURN_IF_ERROR(Find(handle, library.path, "ncclGetVersion", &get_version));
  if (get_version(&library.version) != kSuccess || library.version < kMinVersion) {
    return Refused(absl::StrFormat("%s is NCCL %d.%d; 2.14 or newer is needed", library.path,
                                   library.version / 10000, library.version / 100 % 100));
  }
  const auto find = [&](const char* name, auto* function) {
    return Find(handle, library.path, name, function);
  };
  RW_RETURN_IF_ERROR(find("ncclGetUniqueId", &library.get_unique_id));
  RW_RETURN_IF_ERROR(find("ncclCommInitRankConfig", &library.comm_init_rank_config));
  RW_RETURN_IF_ERROR(find("ncclCommGetAsyncError", &library.comm_get_async_error));
  RW_RETURN_IF_ERROR(find("ncclCommFinalize", &library.comm_finalize));
  RW_RETURN_IF_ERROR(find("ncclCommDestroy", &library.comm_destroy));
  RW_RETURN_IF_ERROR(find("ncclCommAbort", &library.comm_abort));
  RW_RETURN_IF_ERROR(find("ncclAllReduce", &library.all_reduce));
  RW_RETURN_IF_ERROR(find("ncclBroadcast", &library.broadcast));
  RW_RETURN_IF_ERROR(find("ncclSend", &library.send));
  RW_RETURN_IF_ERROR(find("ncclRecv", &library.recv));
  RW_RETURN_IF_ERROR(find("ncclGroupStart", &library.group_start));
  RW_RETURN_IF_ERROR(find("ncclGroupEnd", &library.group_end));
  RW_RETURN_IF_ERROR(find("ncclGetErrorString", &library.get_error_string));
  RW_RETURN_IF_ERROR(find("ncclGetLastError", &library.get_last_error));
  return library;
}

}  // namespace ringwood::nccl
