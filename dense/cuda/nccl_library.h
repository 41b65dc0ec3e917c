// NCCL, found when it is asked for: nothing of it is needed to build or to start. The declarations
// are the ABI of NCCL 2.14 and later (NVIDIA, NCCL user guide, "API"; the sizes and numbers of its
// public header), which newer versions keep: their ncclConfig_t begins with these members, they
// read only the bytes that `size` says, and take what `version` did not know as undefined.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

struct CUstream_st;  // CUDA's: a cudaStream_t points to one

namespace ringwood::nccl {

using Stream = CUstream_st*;

enum Result : int { kSuccess = 0, kRemoteError = 6, kInProgress = 7 };
inline bool IsFine(int result) { return result == kSuccess || result == kInProgress; }
constexpr size_t kIdBytes = 128;
constexpr int kMinVersion = 21400;  // non-blocking communicators

struct Communicator;  // NCCL's
struct Id {
  char bytes[kIdBytes];
};
struct Config {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

// One loaded library; its functions by the names of NCCL's guide. Never unloaded: NCCL's threads
// may outlive every communicator.
struct Library {
  int version = 0;
  std::string path;  // what was given to the loader
  int (*get_unique_id)(Id*) = nullptr;
  int (*comm_init_rank_config)(Communicator**, int world, Id, int rank, Config*) = nullptr;
  int (*comm_get_async_error)(Communicator*, int*) = nullptr;
  int (*comm_finalize)(Communicator*) = nullptr;
  int (*comm_destroy)(Communicator*) = nullptr;
  int (*comm_abort)(Communicator*) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int op, Communicator*, Stream) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, Communicator*, Stream) = nullptr;
  int (*send)(const void*, size_t, int type, int peer, Communicator*, Stream) = nullptr;
  int (*recv)(void*, size_t, int type, int peer, Communicator*, Stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*get_error_string)(int) = nullptr;
  const char* (*get_last_error)(Communicator*) = nullptr;
};

// `path`: the file to load; empty: libnccl.so.2 as the process already has it (PyTorch's), as the
// system finds it, or beside CUDA. Refused lists what was tried, or names a version that
// is too old.
StatusOr<Library> Load(const std::string& path);

}  // namespace ringwood::nccl
