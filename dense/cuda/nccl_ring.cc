#include "dense/cuda/nccl_ring.h"

#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "base/log.h"
#include "dense/cuda/coded_run.h"
#include "dense/cuda/launch.h"
#include "dense/sums_by_host.h"

namespace ringwood {
namespace {

constexpr double kWatchSeconds = 0.1;  // between two looks at deadlines and NCCL's own errors

}  // namespace

Status NcclRing::Start() {
  const DeviceScope scope(options_.device);
  RW_RETURN_IF_ERROR(scope.status());
  RW_RETURN_IF_ERROR(FromCuda(cuda::LoadDenseKernels(), "load the kernels of a ring"));
  RW_RETURN_IF_ERROR(stream_.Create());
  RW_RETURN_IF_ERROR(notices_.Create(stream_.get()));
  start_deadline_ = Now() + Seconds(options_.timeout_seconds);
  if (options_.world == 1) return OkStatus();
  aborter_ = std::make_unique<Loop>("rw-nccl-abort");
  RW_RETURN_IF_ERROR(communicator_.Join(options_.world, options_.id));
  plans_.Use(communicator_.get());
  Watch();
  return OkStatus();
}

void NcclRing::AllReduce(const DeviceReduction& reduction,
                         std::function<void(StatusOr<AllReduceResult>)> done) {
  RingCall call;
  call.reduction = reduction;
  call.done = std::move(done);
  Add(std::move(call));
}

void NcclRing::Broadcast(const DeviceBroadcast& broadcast, std::function<void(Status)> done) {
  RingCall call;
  call.reduce = false;
  call.root = broadcast.root;
  call.reduction.round = broadcast.round;
  call.reduction.group = broadcast.group;
  call.reduction.type = DataType::kUInt8;
  call.reduction.input = call.reduction.output = broadcast.data;
  call.reduction.count = broadcast.bytes;
  call.reduction.producer = broadcast.producer;
  call.done = [done = std::move(done)](StatusOr<AllReduceResult> result) { done(result.status()); };
  Add(std::move(call));
}

void NcclRing::Add(RingCall call) {
  RW_CHECK(loop_->OnThread());
  Status refused = failed_;
  if (refused.ok() && waiting_.size() + running_.size() >= kMaxInFlight) {
    refused =
        Exhausted(absl::StrFormat("%s: %d calls are under way already", call.Name(), kMaxInFlight));
  }
  if (refused.ok()) refused = CheckCall(call, options_.world);
  if (!refused.ok()) return Answer(std::move(call), refused);
  const DeviceScope scope(options_.device);
  call.produced = std::make_unique<CudaEvent>();
  Status recorded = call.produced->Create();
  if (recorded.ok()) {
    recorded = call.produced->Record(static_cast<cudaStream_t>(call.reduction.producer));
  }
  if (!recorded.ok()) return Answer(std::move(call), recorded);
  waiting_.push_back(std::move(call));
  Pump();
}

// Puts one thing after the other on the stream: nothing behind a call that NCCL may not have put
// there yet.
void NcclRing::Pump() {
  const DeviceScope scope(options_.device);
  while (failed_.ok() && Settled()) {
    Status status;
    if (!issuing_) {
      if (waiting_.empty()) return;
      const uint64_t sequence = next_++;
      RingCall& call = running_[sequence] = std::move(waiting_.front());
      waiting_.pop_front();
      issuing_ = true;
      status = Issue(call, sequence);
    } else {
      auto& [sequence, call] = *running_.rbegin();
      issuing_ = call.next_step < call.steps();
      status = issuing_ ? GoOn(call, sequence) : Finish(call, sequence);
    }
    if (!status.ok()) return Fail(status);
  }
}

bool NcclRing::Settled() {
  const StatusOr<bool> settled = communicator_.Settle();
  if (!settled.ok()) {
    Fail(settled.status());
    return false;
  }
  if (!*settled && !std::exchange(polling_, true)) {
    loop_->After(Seconds(kNcclPollSeconds), [self = shared_from_this()] {
      self->polling_ = false;
      if (self->failed_.ok()) self->Pump();
    });
  }
  return *settled;
}

Status NcclRing::Issue(RingCall& call, uint64_t sequence) {
  const DeviceReduction& r = call.reduction;
  call.deadline = Now() + Seconds(options_.timeout_seconds);
  RW_RETURN_IF_ERROR(call.produced->Await(stream_.get()));
  if (call.coded()) {
    call.codes =
        cuda::CodedPlanFor({options_.rank, options_.hosts, LatticeLevels(r.codes.bits), r.count});
    RW_RETURN_IF_ERROR(Annotate(plans_.Reserve(call.codes.staging_bytes), call.Name()));
    return notices_.Clear(sequence, stream_.get(), call.Name());
  }
  if (options_.world == 1 || r.count == 0) {
    if (r.input == r.output || r.count == 0) return OkStatus();
    return FromCuda(
        cudaMemcpyAsync(r.output, r.input, call.bytes(), cudaMemcpyDeviceToDevice, stream_.get()),
        call.Name());
  }
  const bool has_kernel = r.type == DataType::kFloat32 || r.type == DataType::kBFloat16;
  const bool plain_sum = call.reduce && has_kernel && r.op == ReduceOp::kSum;
  if (plain_sum && SumsByHost(options_.hosts, static_cast<double>(call.bytes()))) {
    call.sums = cuda::SumPlanFor(options_.hosts, options_.rank, r.count);
    return Annotate(plans_.Reserve(call.sums.staging * SizeOf(r.type)), call.Name());
  }
  const nccl::Library& library = communicator_.library();
  const int result = call.reduce
                         ? library.all_reduce(r.input, r.output, r.count, NcclType(r.type),
                                              NcclOp(r.op), communicator_.get(), stream_.get())
                         : library.broadcast(r.input, r.output, r.count, NcclType(r.type),
                                             call.root, communicator_.get(), stream_.get());
  return communicator_.Called(result, call.Name());
}

Status NcclRing::GoOn(RingCall& call, uint64_t sequence) {
  const size_t step = call.next_step++;
  RW_RETURN_IF_ERROR(
      Annotate(call.coded() ? RunCoded(call, step, sequence) : RunSum(call, step), call.Name()));
  return communicator_.Called(plans_.TakeResult(), call.Name());
}

Status NcclRing::RunSum(const RingCall& call, size_t step) {
  const DeviceReduction& r = call.reduction;
  return cuda::RunStep(call.sums.steps[step],
                       {r.input, r.output, plans_.staging(), r.type == DataType::kBFloat16},
                       &plans_);
}

Status NcclRing::RunCoded(const RingCall& call, size_t step, uint64_t sequence) {
  const DeviceReduction& r = call.reduction;
  cuda::CodedMemory memory;
  memory.values = static_cast<const float*>(r.input);
  memory.error = r.codes.error;
  memory.next_error = r.codes.next_error;
  memory.reach = r.codes.reach;
  memory.next_reach = r.codes.next_reach;
  memory.less = r.codes.less;
  memory.output = static_cast<float*>(r.output);
  memory.most = notices_.most(sequence);
  memory.staging = plans_.staging();
  return cuda::RunStep(call.codes, call.codes.steps[step], memory, &plans_);
}

Status NcclRing::Finish(const RingCall& call, uint64_t sequence) {
  return notices_.Post(call, sequence, stream_.get(), [weak = weak_from_this(), sequence] {
    if (const auto ring = weak.lock()) ring->Ended(sequence);
  });
}

void NcclRing::Ended(uint64_t sequence) {
  const auto found = running_.find(sequence);
  if (found == running_.end()) return;  // answered by Close
  const RingCall call = std::move(found->second);
  running_.erase(found);
  call.done(ResultOf(call, options_.world, notices_.Of(sequence)));
}

// While the ring lives: deadlines, and errors that NCCL finds by itself (a peer that is gone).
void NcclRing::Watch() {
  if (closed_ || !failed_.ok()) return;
  const TimePoint now = Now();
  const RingCall* const oldest = running_.empty() ? nullptr : &running_.begin()->second;
  // Before any call was made it tells whether all ranks have come.
  Status status = communicator_.Ask(oldest != nullptr ? oldest->Name() : "an idle ring").status();
  if (status.ok() && !communicator_.ready() && now > start_deadline_) {
    status = TimedOut(absl::StrFormat("rank %d: not all %d ranks came to NCCL within %.1f s",
                                      options_.rank, options_.world, options_.timeout_seconds));
  } else if (status.ok() && oldest != nullptr && now > oldest->deadline) {
    status = TimedOut(absl::StrFormat("rank %d: %s did not end within %.1f s", options_.rank,
                                      oldest->Name(), options_.timeout_seconds));
  }
  if (!status.ok()) return Fail(status);
  loop_->After(Seconds(kWatchSeconds), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Watch();
  });
}

void NcclRing::Fail(const Status& reason) {
  if (failed_.ok()) failed_ = reason;
  AnswerAll(failed_);
}

void NcclRing::AnswerAll(const Status& reason) {
  for (auto& [sequence, call] : running_) Answer(std::move(call), Annotate(reason, call.Name()));
  for (RingCall& call : waiting_) Answer(std::move(call), Annotate(reason, call.Name()));
  running_.clear();
  waiting_.clear();
}

void NcclRing::Answer(RingCall call, StatusOr<AllReduceResult> result) {
  (void)loop_->PostReserved(
      [done = std::move(call.done), result = std::move(result)] { done(result); });
}

Status NcclRing::Close(const Status& reason) {
  RW_CHECK(loop_->OnThread());
  if (std::exchange(closed_, true)) return OkStatus();
  const bool orderly =
      failed_.ok() && running_.empty() && waiting_.empty() && !communicator_.asking();
  Fail(reason.ok() ? Aborted("the ring was closed") : reason);
  if (communicator_.get() == nullptr) {
    const DeviceScope scope(options_.device);
    for (cudaStream_t stream : {stream_.get(), notices_.stream()}) {
      if (stream != nullptr) cudaStreamSynchronize(stream);
    }
    return OkStatus();
  }
  // What the helper needs lives until it ends, however late.
  auto released = std::make_shared<absl::Notification>();
  const bool posted = aborter_->Post([=, self = shared_from_this()] {
    const DeviceScope scope(self->options_.device);
    self->communicator_.Release(orderly, kAbortSeconds / 2);
    cudaStreamSynchronize(self->stream_.get());
    cudaStreamSynchronize(self->notices_.stream());
    released->Notify();
  });
  if (posted && released->WaitForNotificationWithTimeout(absl::Seconds(kAbortSeconds))) {
    aborter_.reset();
    return OkStatus();
  }
  aborter_.release();  // joining a thread that hangs inside NCCL would hang here too
  const Status hung = TimedOut(
      absl::StrFormat("rank %d: NCCL did not let go of its buffers within %.0f s: end this process",
                      options_.rank, kAbortSeconds));
  Log(LogLevel::kError, Message(hung));
  return hung;
}

StatusOr<std::unique_ptr<DeviceRing>> MakeNcclRing(Loop* loop, const DeviceRingOptions& options) {
  nccl::Library library;
  if (options.world > 1) {
    RW_ASSIGN_OR_RETURN(library, nccl::Load(options.library));
  }
  auto ring = std::make_shared<NcclRing>(loop, std::move(library), options);
  auto handle = std::make_unique<DeviceRingHandle>(ring);  // closes it if the start fails
  RW_RETURN_IF_ERROR(ring->Start());
  return std::unique_ptr<DeviceRing>(std::move(handle));
}

}  // namespace ringwood
