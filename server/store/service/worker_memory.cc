#include "server/store/service/worker_memory.h"

#include <filesystem>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/calls/peer_process.h"
#include "server/store/record/manifest.h"
#include "transport/ucx/neighbour.h"

namespace ringwood {
namespace {

// Empty: there is no such process, or it is not ours to look at.
std::string NetworkOf(const std::string& process) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + process + "/ns/net", error).string();
}

}  // namespace

bool MetProcesses::Meet(const v1::MeetRequest& request, const std::string& peer) {
  const v1::Memory& at = request.at();
  const auto process = static_cast<int>(at.process());
  const std::string network = NetworkOf(std::to_string(at.process()));
  // The number shows that its memory can be read; the connection, that it is the caller's.
  if (network.empty() || network != NetworkOf("self") ||
      !HasCookie(process, at.address(), request.cookie()) || !HoldsConnection(process, peer)) {
    return false;
  }
  const absl::MutexLock lock(&mutex_);
  if (met_.size() >= kMost) met_.erase(met_.begin());
  met_.insert(at.process());
  return true;
}

bool MetProcesses::Knows(uint32_t process) const {
  const absl::MutexLock lock(&mutex_);
  return met_.contains(process);
}

Status WorkerMemory::Fetch(v1::SaveChunk* chunk) {
  if (!chunk->has_memory()) return OkStatus();
  const v1::Memory& memory = chunk->memory();
  if (!chunk->data().empty() || memory.bytes() > kMaxChunkBytes) {
    return Invalid(absl::StrFormat("a chunk of rank %d names %d bytes of its memory beside %d",
                                   chunk->rank(), memory.bytes(), chunk->data().size()));
  }
  if (!met_->Knows(memory.process())) {
    return Refused(absl::StrFormat("process %d of rank %d has not asked whether it is read",
                                   memory.process(), chunk->rank()));
  }
  buffer_.resize(memory.bytes());
  RW_RETURN_IF_ERROR(Annotate(ReadMemory(static_cast<int>(memory.process()), memory.address(),
                                         std::as_writable_bytes(std::span(buffer_))),
                              absl::StrFormat("the checkpoint of rank %d", chunk->rank())));
  chunk->set_data(std::move(buffer_));
  return OkStatus();
}

void WorkerMemory::Release(v1::SaveChunk* chunk) {
  if (chunk->has_memory()) buffer_ = std::move(*chunk->mutable_data());
}

}  // namespace ringwood
