// A ring over NCCL runs while the trainer's kernel does: two ranks, each a process, on one device.
// The proof is an event: it stands behind the kernel and is not reached when the all-reduce has
// ended. With two processes on one device the times themselves mean nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/cuda/device.h"
#include "base/cuda/runtime.h"
#include "bench/gpu/spin.h"
#include "dense/cuda/device_ring.h"

namespace ringwood {
namespace {

constexpr int kWorld = 2;
constexpr uint64_t kCount = 1 << 20;
constexpr double kKernelSeconds = 3;
constexpr unsigned kKernelBlocks = 8;  // leaves room for NCCL's, as a kernel's tail does
constexpr double kTimeoutSeconds = 30;

struct Shared {
  absl::Notification done;
  StatusOr<AllReduceResult> result = Internal("not answered");
};

Status AllReduce(Loop* loop, DeviceRing* ring, DeviceArray* array, cudaStream_t producer) {
  auto shared = std::make_shared<Shared>();
  loop->Post([=] {
    DeviceReduction reduction;
    reduction.input = reduction.output = array->data();
    reduction.count = kCount;
    reduction.producer = producer;
    ring->AllReduce(reduction, [shared](StatusOr<AllReduceResult> result) {
      shared->result = std::move(result);
      shared->done.Notify();
    });
  });
  if (!shared->done.WaitForNotificationWithTimeout(absl::Seconds(kTimeoutSeconds))) {
    return TimedOut("no end of the all-reduce");
  }
  return shared->result.status();
}

Status Overlap(Loop* loop, DeviceRing* ring, int rank) {
  RW_ASSIGN_OR_RETURN(const auto array, MakeDeviceArray(0, kCount * sizeof(float)));
  CudaStream trainer, producer;
  RW_RETURN_IF_ERROR(trainer.Create());
  RW_RETURN_IF_ERROR(producer.Create());
  CudaEvent behind_kernel;
  RW_RETURN_IF_ERROR(behind_kernel.Create());
  RW_RETURN_IF_ERROR(AllReduce(loop, ring, array.get(), producer.get()));  // the ring stands now
  const TimePoint start = Now();
  RW_RETURN_IF_ERROR(FromCuda(
      cuda::LaunchSpin(kKernelBlocks, static_cast<uint64_t>(kKernelSeconds * 1e9), trainer.get()),
      "start the trainer's kernel"));
  RW_RETURN_IF_ERROR(behind_kernel.Record(trainer.get()));
  RW_RETURN_IF_ERROR(AllReduce(loop, ring, array.get(), producer.get()));
  const double ended = ToSeconds(Now() - start);
  const cudaError_t kernel = cudaEventQuery(behind_kernel.get());
  RW_RETURN_IF_ERROR(FromCuda(cudaEventSynchronize(behind_kernel.get()), "end the kernel"));
  std::printf(
      "{\"rank\": %d, \"all_reduce_end_s\": %.3f, \"kernel_end_s\": %.3f, \"overlapped\": %s}\n",
      rank, ended, ToSeconds(Now() - start), kernel == cudaErrorNotReady ? "true" : "false");
  return kernel == cudaErrorNotReady ? OkStatus() : Internal("the ring waited for the kernel");
}

Status RunRank(int rank, const std::string& id) {
  Loop loop("rank");
  std::unique_ptr<DeviceRing> ring;
  RW_RETURN_IF_ERROR(loop.Call(
      [&]() -> Status {
        DeviceRingOptions options;
        options.rank = rank;
        options.world = kWorld;
        options.id = id;
        options.timeout_seconds = kTimeoutSeconds;
        RW_ASSIGN_OR_RETURN(ring, MakeDeviceRing(&loop, options));
        return OkStatus();
      },
      Seconds(kTimeoutSeconds)));
  const Status status = Overlap(&loop, ring.get(), rank);
  const Status closed = loop.Call(
      [&] {
        ring.reset();
        return OkStatus();
      },
      Seconds(kTimeoutSeconds));
  return status.ok() ? closed : status;
}

// The device is asked for in the children only: CUDA does not survive a fork.
int Fail(const Status& status) {
  if (status.code() == StatusCode::kFailedPrecondition) {
    std::printf("skipped: %s\n", Message(status).c_str());
    std::fflush(stdout);  // a child ends by _exit
    return 0;
  }
  std::fprintf(stderr, "%s\n", Message(status).c_str());
  return 1;
}

int Run() {
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("NCCL_NET", "Socket", 1);
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_MAX_NCHANNELS"}) {
    setenv(name, "1", 1);
  }
  for (const char* name : {"NCCL_MNNVL_ENABLE", "NCCL_CUMEM_ENABLE"}) setenv(name, "0", 1);
  int ids[kWorld - 1][2];  // rank 0 makes the id and writes it to the others
  for (auto& pipe_ends : ids) {
    if (pipe(pipe_ends) != 0) return Fail(Internal("no pipe"));
  }
  for (int rank = 0; rank < kWorld; ++rank) {
    const pid_t child = fork();
    if (child < 0) return Fail(Internal("no process"));
    if (child != 0) continue;
    setenv("NCCL_HOSTID", rank == 0 ? "host0" : "host1", 1);
    std::string id(128, '\0');
    if (rank == 0) {
      const auto devices = CountDevices();
      const auto made = devices.ok() ? MakeDeviceRingId("") : devices.status();
      if (!made.ok()) _exit(Fail(made.status()));
      id = *made;
      for (auto& pipe_ends : ids) (void)!write(pipe_ends[1], id.data(), id.size());
    } else {
      for (auto& pipe_ends : ids) close(pipe_ends[1]);
      const ssize_t count = read(ids[rank - 1][0], id.data(), id.size());
      if (count != static_cast<ssize_t>(id.size())) _exit(0);  // rank 0 has said why
    }
    const Status status = RunRank(rank, id);
    std::fflush(stdout);
    _exit(status.ok() ? 0 : Fail(status));
  }
  for (auto& pipe_ends : ids) close(pipe_ends[1]);
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return failed;
}

}  // namespace
}  // namespace ringwood

int main() { return ringwood::Run(); }
