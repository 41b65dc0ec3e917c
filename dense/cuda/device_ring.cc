#include "dense/cuda/device_ring.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "base/check.h"
#include "base/cuda/device.h"
#include "base/cuda/runtime.h"
#include "base/log.h"
#include "dense/cuda/coded_nccl.h"
#include "dense/cuda/device_support.h"
#include "dense/cuda/launch.h"
#include "dense/cuda/nccl_library.h"
#include "dense/cuda/ring_call.h"
#include "dense/cuda/ring_thread.h"

namespace ringwood {
namespace {

// NCCL finishes most calls within microseconds: so long it is asked without a pause, then by timer.
constexpr double kSpinSeconds = 50e-6;
constexpr double kPollSeconds = 200e-6;
constexpr double kWatchSeconds = 0.1;  // between two looks at deadlines and NCCL's own errors

class NcclRing : public DeviceRing, public std::enable_shared_from_this<NcclRing> {
 public:
  NcclRing(Loop* loop, nccl::Library library, const DeviceRingOptions& options)
      : loop_(loop), library_(std::move(library)), options_(options) {}

  Status Start();  // from then on it lives until Close

  void AllReduce(const DeviceReduction& reduction,
                 std::function<void(StatusOr<AllReduceResult>)> done) override {
    RingCall call;
    call.reduction = reduction;
    call.done = std::move(done);
    Add(std::move(call));
  }
  void Broadcast(const DeviceBroadcast& broadcast, std::function<void(Status)> done) override {
    RingCall call;
    call.reduce = false;
    call.root = broadcast.root;
    call.reduction.round = broadcast.round;
    call.reduction.group = broadcast.group;
    call.reduction.type = DataType::kUInt8;
    call.reduction.input = call.reduction.output = broadcast.data;
    call.reduction.count = broadcast.bytes;
    call.reduction.producer = broadcast.producer;
    call.done = [done = std::move(done)](StatusOr<AllReduceResult> result) {
      done(result.status());
    };
    Add(std::move(call));
  }
  Status Close(const Status& reason) override;

 private:
  // What a callback of CUDA's carries to the loop. It owns nothing: where the loop takes no notice
  // any more, the last owner would free CUDA's memory inside the callback, which CUDA forbids.
  struct Notice {
    Loop* loop;
    std::weak_ptr<NcclRing> ring;
    uint64_t sequence;
  };

  void Add(RingCall call);
  void Pump();
  bool Settled();  // NCCL is ready for the next call; false: asked again soon, or failed
  Status Issue(RingCall& call, uint64_t sequence);
  Status GoOn(RingCall& call, uint64_t sequence);          // the next step of its plan
  Status Finish(const RingCall& call, uint64_t sequence);  // after NCCL: digest, notice
  void Ended(uint64_t sequence);
  void Watch();
  void Fail(const Status& reason);
  void AnswerAll(const Status& reason);
  Status Check(int result, const std::string& what);
  void Answer(RingCall call, StatusOr<AllReduceResult> result) {
    (void)loop_->PostReserved(
        [done = std::move(call.done), result = std::move(result)] { done(result); });
  }

  Loop* const loop_;
  const nccl::Library library_;
  const DeviceRingOptions options_;
  nccl::Communicator* communicator_ = nullptr;
  std::unique_ptr<Loop> aborter_;  // ncclCommAbort may hang: it gets a thread of its own
  CudaStream stream_;              // collectives
  // Digests and notices: a callback of CUDA's holds up what stands behind it on its stream, and
  // that is no collective.
  CudaStream notices_;
  CodedNccl coded_{library_, stream_};
  DeviceBuffer<RingFindings> findings_;  // a call under way has the slot sequence % kMaxInFlight
  PinnedBuffer<RingFindings> host_findings_;
  std::deque<RingCall> waiting_;
  std::map<uint64_t, RingCall> running_;  // by sequence; on the stream, or being put there
  uint64_t next_ = 0;
  bool ready_ = false;    // the communicator is ready
  bool asking_ = true;    // the result of NCCL's last call is not known yet
  bool issuing_ = false;  // running_.rbegin() is not all on the stream, or it is not known yet
  bool polling_ = false;
  TimePoint start_deadline_;
  Status failed_;
  bool closed_ = false;
};

Status NcclRing::Start() {
  const DeviceScope scope(options_.device);
  RW_RETURN_IF_ERROR(scope.status());
  RW_RETURN_IF_ERROR(FromCuda(cuda::LoadDenseKernels(), "load the kernels of a ring"));
  RW_RETURN_IF_ERROR(stream_.Create());
  RW_RETURN_IF_ERROR(notices_.Create());
  RW_RETURN_IF_ERROR(findings_.Allocate(kMaxInFlight, stream_.get()));
  RW_RETURN_IF_ERROR(host_findings_.Allocate(kMaxInFlight, stream_.get()));
  start_deadline_ = Now() + Seconds(options_.timeout_seconds);
  if (options_.world == 1) {
    ready_ = true;
    asking_ = false;
    return OkStatus();
  }
  aborter_ = std::make_unique<Loop>("rw-nccl-abort");
  nccl::Id id;
  std::memcpy(id.bytes, options_.id.data(), sizeof id.bytes);
  nccl::Config config{sizeof(nccl::Config), 0xcafebeefu, static_cast<unsigned>(nccl::kMinVersion),
                      0};
  const int result =
      library_.comm_init_rank_config(&communicator_, options_.world, id, options_.rank, &config);
  RW_RETURN_IF_ERROR(Check(result, "join the ring"));
  coded_.Use(communicator_);
  Watch();
  return OkStatus();
}

Status NcclRing::Check(int result, const std::string& what) {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return OkStatus();
  const char* detail = communicator_ != nullptr ? library_.get_last_error(communicator_) : nullptr;
  return Unavailable(absl::StrFormat(
      "rank %d: %s: NCCL says \"%s\"%s%s", options_.rank, what, library_.get_error_string(result),
      detail != nullptr && *detail != 0 ? ": " : "", detail != nullptr ? detail : ""));
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
      issuing_ = call.next_step < call.plan.steps.size();
      status = issuing_ ? GoOn(call, sequence) : Finish(call, sequence);
    }
    if (!status.ok()) return Fail(status);
  }
}

bool NcclRing::Settled() {
  const TimePoint until = Now() + Seconds(kSpinSeconds);
  while (asking_) {
    int state = nccl::kSuccess;
    Status status = Check(library_.comm_get_async_error(communicator_, &state), "ask NCCL");
    if (status.ok()) status = Check(state, ready_ ? "run a collective" : "join the ring");
    if (!status.ok()) {
      Fail(status);
      return false;
    }
    if (state == nccl::kSuccess) {
      asking_ = false;
      ready_ = true;
    } else if (Now() > until) {
      if (!std::exchange(polling_, true)) {
        loop_->After(Seconds(kPollSeconds), [self = shared_from_this()] {
          self->polling_ = false;
          if (self->failed_.ok()) self->Pump();
        });
      }
      return false;
    }
  }
  return true;
}

Status NcclRing::Issue(RingCall& call, uint64_t sequence) {
  const DeviceReduction& r = call.reduction;
  call.deadline = Now() + Seconds(options_.timeout_seconds);
  RW_RETURN_IF_ERROR(call.produced->Await(stream_.get()));
  if (call.coded()) {
    call.plan =
        cuda::CodedPlanFor({options_.rank, options_.world, LatticeLevels(r.codes.bits), r.count});
    RW_RETURN_IF_ERROR(Annotate(coded_.Reserve(call.plan), call.Name()));
    return FromCuda(cudaMemsetAsync(findings_.data() + sequence % kMaxInFlight, 0,
                                    sizeof(RingFindings), stream_.get()),
                    call.Name());
  }
  if (options_.world == 1 || r.count == 0) {
    if (r.input == r.output || r.count == 0) return OkStatus();
    return FromCuda(
        cudaMemcpyAsync(r.output, r.input, call.bytes(), cudaMemcpyDeviceToDevice, stream_.get()),
        call.Name());
  }
  const int result = call.reduce ? library_.all_reduce(r.input, r.output, r.count, NcclType(r.type),
                                                       NcclOp(r.op), communicator_, stream_.get())
                                 : library_.broadcast(r.input, r.output, r.count, NcclType(r.type),
                                                      call.root, communicator_, stream_.get());
  asking_ = result == nccl::kInProgress;
  return Check(result, call.Name());
}

Status NcclRing::GoOn(RingCall& call, uint64_t sequence) {
  const DeviceReduction& r = call.reduction;
  cuda::CodedMemory memory;
  memory.values = static_cast<const float*>(r.input);
  memory.error = r.codes.error;
  memory.next_error = r.codes.next_error;
  memory.reach = r.codes.reach;
  memory.next_reach = r.codes.next_reach;
  memory.less = r.codes.less;
  memory.output = static_cast<float*>(r.output);
  memory.most = &findings_.data()[sequence % kMaxInFlight].most;
  coded_.Place(call.plan, &memory);
  const cuda::CodedStep& step = call.plan.steps[call.next_step++];
  RW_RETURN_IF_ERROR(Annotate(cuda::RunStep(call.plan, step, memory, &coded_), call.Name()));
  const int result = coded_.TakeResult();
  asking_ = result == nccl::kInProgress;
  return Check(result, call.Name());
}

Status NcclRing::Finish(const RingCall& call, uint64_t sequence) {
  const size_t slot = sequence % kMaxInFlight;
  RingFindings* const findings = findings_.data() + slot;
  RW_RETURN_IF_ERROR(call.produced->Order(stream_.get(), notices_.get()));
  const auto digest = [&](const void* data, uint64_t bytes, uint64_t* into) {
    return FromCuda(cuda::LaunchWordDigest(data, bytes, into, notices_.get()), call.Name());
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
        FromCuda(cudaMemcpyAsync(host_findings_.data() + slot, findings, sizeof(RingFindings),
                                 cudaMemcpyDeviceToHost, notices_.get()),
                 call.Name()));
  }
  auto notice = std::make_unique<Notice>(Notice{loop_, weak_from_this(), sequence});
  const cudaHostFn_t hand_over = [](void* data) {
    const std::unique_ptr<Notice> notice(static_cast<Notice*>(data));
    // Refused only by a loop that stops. At most kMaxInFlight are on their way.
    (void)notice->loop->PostReserved([weak = notice->ring, sequence = notice->sequence] {
      if (const auto ring = weak.lock()) ring->Ended(sequence);
    });
  };
  RW_RETURN_IF_ERROR(
      FromCuda(cudaLaunchHostFunc(notices_.get(), hand_over, notice.get()), call.Name()));
  notice.release();  // the callback owns it
  return OkStatus();
}

void NcclRing::Ended(uint64_t sequence) {
  const auto found = running_.find(sequence);
  if (found == running_.end()) return;  // answered by Close
  const RingCall call = std::move(found->second);
  running_.erase(found);
  call.done(ResultOf(call, options_.world, host_findings_.data()[sequence % kMaxInFlight]));
}

// While the ring lives: deadlines, and errors that NCCL finds by itself (a peer that is gone).
void NcclRing::Watch() {
  if (closed_ || !failed_.ok()) return;
  const TimePoint now = Now();
  const RingCall* const oldest = running_.empty() ? nullptr : &running_.begin()->second;
  int state = nccl::kSuccess;
  Status status = Check(library_.comm_get_async_error(communicator_, &state), "ask NCCL");
  if (status.ok()) status = Check(state, oldest != nullptr ? oldest->Name() : "an idle ring");
  if (status.ok() && state == nccl::kSuccess) ready_ = true;  // before any call was made, too
  if (status.ok() && !ready_ && now > start_deadline_) {
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

// Lets go of the communicator and of all that is on the stream. Where everything has ended, NCCL
// first delivers what peers still wait for; whatever takes too long is aborted. May hang.
void Release(const nccl::Library& library, nccl::Communicator* communicator, bool orderly,
             cudaStream_t stream, cudaStream_t notices) {
  int state = nccl::kSuccess;
  if (orderly && library.comm_finalize(communicator) != nccl::kSuccess) state = nccl::kInProgress;
  const TimePoint until = Now() + Seconds(DeviceRing::kAbortSeconds / 2);
  while (orderly && Now() < until) {
    if (library.comm_get_async_error(communicator, &state) != nccl::kSuccess) break;
    if (state != nccl::kInProgress) break;
    std::this_thread::sleep_for(Seconds(kPollSeconds));
  }
  const bool delivered = orderly && state == nccl::kSuccess;
  (delivered ? library.comm_destroy : library.comm_abort)(communicator);
  cudaStreamSynchronize(stream);
  cudaStreamSynchronize(notices);
}

Status NcclRing::Close(const Status& reason) {
  RW_CHECK(loop_->OnThread());
  if (std::exchange(closed_, true)) return OkStatus();
  const bool orderly = failed_.ok() && running_.empty() && waiting_.empty() && !asking_;
  Fail(reason.ok() ? Aborted("the ring was closed") : reason);
  if (communicator_ == nullptr) {
    const DeviceScope scope(options_.device);
    for (cudaStream_t stream : {stream_.get(), notices_.get()}) {
      if (stream != nullptr) cudaStreamSynchronize(stream);
    }
    return OkStatus();
  }
  // What the helper needs lives until it ends, however late.
  auto released = std::make_shared<absl::Notification>();
  const bool posted = aborter_->Post([=, self = shared_from_this()] {
    const DeviceScope scope(self->options_.device);
    Release(self->library_, self->communicator_, orderly, self->stream_.get(),
            self->notices_.get());
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

}  // namespace

Status FindDeviceSupport(const std::string& library) {
  RW_RETURN_IF_ERROR(CountDevices().status());
  return nccl::Load(library).status();
}

StatusOr<std::string> MakeDeviceRingId(const std::string& library) {
  RW_ASSIGN_OR_RETURN(const nccl::Library loaded, nccl::Load(library));
  nccl::Id id;
  if (const int result = loaded.get_unique_id(&id); result != nccl::kSuccess) {
    return Unavailable(std::string("make an id for NCCL: ") + loaded.get_error_string(result));
  }
  return std::string(id.bytes, sizeof id.bytes);
}

StatusOr<std::unique_ptr<DeviceRing>> MakeDeviceRing(Loop* loop, const DeviceRingOptions& options) {
  RW_CHECK(loop->OnThread());
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world) {
    return Invalid(absl::StrFormat("rank %d of %d ranks", options.rank, options.world));
  }
  if (options.world > 1 && options.id.size() != nccl::kIdBytes) {
    return Invalid(absl::StrFormat("an id of %d bytes for NCCL, %d are expected", options.id.size(),
                                   nccl::kIdBytes));
  }
  RW_RETURN_IF_ERROR(CountDevices().status());
  return MakeRingThread(
      loop, [options](Loop* own) { return MakeNcclRing(own, options); },
      RingSilenceSeconds(options.timeout_seconds));
}

}  // namespace ringwood
