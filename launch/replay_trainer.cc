#include "launch/replay_trainer.h"

#include <sys/prctl.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "base/buffer.h"
#include "base/clock.h"
#include "client/grpc/parts.h"
#include "client/session.h"
#include "launch/replay_gradient.h"
#include "launch/replay_prediction.h"
#include "launch/ring_probe.h"
#include "launch/session_options.h"
#include "plan/trace.h"

namespace ringwood {
namespace {

constexpr unsigned long kTimerSlackNanoseconds = 1000;  // the kernel's default would be 50 us

template <typename T>
std::span<std::byte> BytesOf(T* value) {
  return std::as_writable_bytes(std::span(value, 1));
}

class Trainer {
 public:
  Trainer(const ReplayOptions& options, Trace trace)
      : options_(options), trace_(std::move(trace)) {}

  Status Open(const SessionOptions& options);
  StatusOr<ReplayResult> Run();
  // Leaves the job; with an error the other ranks are told.
  Status Close(const Status& outcome);

 private:
  Status Register();
  void MakeGradients(uint64_t step);
  StatusOr<double> Step(uint64_t step, uint64_t* bytes);
  StatusOr<double> Predicted(const ProbeResult& probe) const;
  // Registration is in forward order, the trace in backward order.
  int IdOf(size_t tensor) const { return static_cast<int>(trace_.tensors.size() - 1 - tensor); }
  double ForwardSeconds() const { return options_.forward_seconds * options_.scale; }

  const ReplayOptions options_;
  const Trace trace_;
  std::string planner_;
  std::unique_ptr<Session> session_;
  std::vector<Buffer<float>> gradients_;  // by tensor of the trace
};

Status Trainer::Open(const SessionOptions& options) {
  planner_ = options.planner;
  RW_ASSIGN_OR_RETURN(session_, Session::Open(options, MakeParts(options)));
  return OkStatus();
}

Status Trainer::Register() {
  for (const TraceTensor& tensor : trace_.tensors) gradients_.emplace_back(tensor.elements);
  for (size_t t = trace_.tensors.size(); t-- > 0;) {
    Tensor tensor;
    tensor.spec = {trace_.tensors[t].name, trace_.tensors[t].elements, options_.route,
                   options_.density};
    tensor.data = gradients_[t].data();
    RW_RETURN_IF_ERROR(session_->Register(tensor).status());
  }
  return session_->Agree();
}

void Trainer::MakeGradients(uint64_t step) {
  for (size_t t = 0; t < gradients_.size(); ++t) {
    FillGradient(GradientSeed(options_.seed, session_->rank(), step, static_cast<uint32_t>(t)),
                 gradients_[t].span());
  }
}

// Deadlines count from the step's start, so that late wake-ups do not add up.
StatusOr<double> Trainer::Step(uint64_t step, uint64_t* bytes) {
  MakeGradients(step);
  RW_RETURN_IF_ERROR(Barrier(session_.get()));
  const TimePoint start = Now();
  const TimePoint backward = start + Seconds(ForwardSeconds());
  std::this_thread::sleep_until(backward);
  for (size_t t = 0; t < gradients_.size(); ++t) {
    std::this_thread::sleep_until(backward +
                                  Seconds(trace_.tensors[t].ready_seconds * options_.scale));
    RW_RETURN_IF_ERROR(session_->Ready(IdOf(t)));
  }
  RW_ASSIGN_OR_RETURN(const StepResult result, session_->FinishStep());
  double seconds = ToSeconds(Now() - start);
  *bytes = result.dense_bytes + result.sparse_bytes;
  RW_RETURN_IF_ERROR(
      session_->AllReduce(BytesOf(&seconds), DataType::kFloat64, ReduceOp::kMax, false));
  return seconds;
}

StatusOr<double> Trainer::Predicted(const ProbeResult& probe) const {
  return PredictStep(trace_, {.plan = session_->plan(),
                              .density = options_.density,
                              .forward_seconds = ForwardSeconds(),
                              .scale = options_.scale,
                              .world = session_->world(),
                              .servers = options_.servers,
                              .probe = probe});
}

StatusOr<ReplayResult> Trainer::Run() {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds);
  RW_RETURN_IF_ERROR(Register());
  RW_ASSIGN_OR_RETURN(const ProbeResult probe, ProbeRing(session_.get()));
  ReplayResult result;
  result.rank = session_->rank();
  result.world = session_->world();
  result.trace = trace_.name;
  result.planner = planner_;
  result.compute_seconds = ForwardSeconds() + trace_.tensors.back().ready_seconds * options_.scale;
  for (int step = 0; step < options_.warmup + options_.steps; ++step) {
    RW_ASSIGN_OR_RETURN(const double seconds, Step(step, &result.bytes_per_worker_per_step));
    if (step >= options_.warmup) result.step_seconds.push_back(seconds);
  }
  std::vector<double> sorted = result.step_seconds;
  std::sort(sorted.begin(), sorted.end());
  result.median_seconds = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  RW_ASSIGN_OR_RETURN(result.predicted_seconds, Predicted(probe));
  return result;
}

Status Trainer::Close(const Status& outcome) {
  const Status closed = session_->Close(Message(outcome));
  return outcome.ok() ? closed : outcome;
}

}  // namespace

StatusOr<ReplayResult> RunReplay(const ReplayOptions& options,
                                 const std::map<std::string, std::string>& environment) {
  RW_ASSIGN_OR_RETURN(Trace trace, ReadTrace(options.trace));
  RW_ASSIGN_OR_RETURN(const SessionOptions session, SessionOptionsOf(environment));
  Trainer trainer(options, std::move(trace));
  RW_RETURN_IF_ERROR(trainer.Open(session));
  StatusOr<ReplayResult> result = trainer.Run();
  RW_RETURN_IF_ERROR(trainer.Close(result.status()));
  return result;
}

}  // namespace ringwood
