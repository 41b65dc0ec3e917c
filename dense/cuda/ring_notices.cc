#include "dense/cuda/ring_notices.h"

#include <memory>
#include <utility>

#include "dense/cuda/launch.h"

namespace ringwood {
namespace {

// What a callback of CUDA's carries to the loop.
struct Notice {
  Loop* loop;
  std::function<void()> ended;
};

// At most kMaxInFlight are on their way. Refused only by a loop that stops.
void HandOver(void* data) {
  const std::unique_ptr<Notice> notice(static_cast<Notice*>(data));
  (void)notice->loop->PostReserved(std::move(notice->ended));
}

}  // namespace

Status RingNotices::Create(cudaStream_t stream) {
  RW_RETURN_IF_ERROR(stream_.Create());
  RW_RETURN_IF_ERROR(findings_.Allocate(DeviceRing::kMaxInFlight, stream));
  return host_findings_.Allocate(DeviceRing::kMaxInFlight, stream);
}

Status RingNotices::Clear(uint64_t sequence, cudaStream_t stream, const std::string& name) const {
  return FromCuda(
      cudaMemsetAsync(findings_.data() + SlotOf(sequence), 0, sizeof(RingFindings), stream), name);
}

Status RingNotices::Post(const RingCall& call, uint64_t sequence, cudaStream_t stream,
                         std::function<void()> ended) const {
  RingFindings* const findings = findings_.data() + SlotOf(sequence);
  RW_RETURN_IF_ERROR(call.produced->Order(stream, stream_.get()));
  const auto digest = [&](const void* data, uint64_t bytes, uint64_t* into) {
    return FromCuda(cuda::LaunchWordDigest(data, bytes, into, stream_.get()), call.Name());
  };
  if (call.reduce) {
    RW_RETURN_IF_ERROR(digest(call.reduction.output, call.bytes(), &findings->output));
  }
  if (call.coded()) {
    const uint64_t bytes = LatticeBlocks(call.reduction.count) * sizeof(BlockReach);
    RW_RETURN_IF_ERROR(digest(call.reduction.codes.reach, bytes, &findings->reach));
    RW_RETURN_IF_ERROR(digest(call.reduction.codes.next_reach, bytes, &findings->next_reach));
  }
  if (call.reduce) {
    RW_RETURN_IF_ERROR(
        FromCuda(cudaMemcpyAsync(host_findings_.data() + SlotOf(sequence), findings,
                                 sizeof(RingFindings), cudaMemcpyDeviceToHost, stream_.get()),
                 call.Name()));
  }
  auto notice = std::make_unique<Notice>(Notice{loop_, std::move(ended)});
  RW_RETURN_IF_ERROR(
      FromCuda(cudaLaunchHostFunc(stream_.get(), HandOver, notice.get()), call.Name()));
  notice.release();  // the callback owns it
  return OkStatus();
}

}  // namespace ringwood
