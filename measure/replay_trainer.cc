#include "measure/replay_trainer.h"

#include <sys/prctl.h>

#include <memory>
#include <thread>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/median.h"
#include "client/grpc/parts.h"
#include "client/session.h"
#include "measure/replay_gradient.h"
#include "measure/replay_load.h"
#include "measure/replay_prediction.h"
#include "measure/ring_probe.h"
#include "measure/session_options.h"
#include "plan/model/model_profile.h"

namespace ringwood {
namespace {

constexpr unsigned long kTimerSlackNanoseconds = 1000;  // the kernel's default would be 50 us

template <typename T>
std::span<std::byte> BytesOf(T* value) {
  return std::as_writable_bytes(std::span(value, 1));
}

class Trainer {
 public:
  Trainer(const ReplayOptions& options, ModelProfile model)
      : options_(options), model_(std::move(model)) {}

  Status Open(const SessionOptions& options);
  StatusOr<ReplayResult> Run();
  // Leaves the job; with an error the other ranks are told.
  Status Close(const Status& outcome);

 private:
  Status Register();
  void MakeGradients(uint64_t step);
  Status Step(uint64_t step, ReplayResult* result);
  StatusOr<double> Predicted(const ProbeResult& probe);
  // Registration is in forward order, the profile in backward order.
  int IdOf(size_t tensor) const { return static_cast<int>(model_.tensors.size() - 1 - tensor); }
  double ForwardSeconds() const { return options_.forward_seconds * options_.scale; }

  const ReplayOptions options_;
  const ModelProfile model_;
  std::string planner_;
  std::string wire_;
  ReplayProfile* profile_ = nullptr;  // the session's
  std::unique_ptr<Session> session_;
  std::vector<Buffer<float>> gradients_;  // by tensor of the profile
};

Status Trainer::Open(const SessionOptions& options) {
  planner_ = options.planner;
  wire_ = options.wire;
  RW_ASSIGN_OR_RETURN(Parts parts, MakeParts(options));
  auto profile = std::make_unique<ReplayProfile>();
  profile_ = profile.get();
  parts.observers.push_back(std::move(profile));
  RW_ASSIGN_OR_RETURN(session_, Session::Open(options, std::move(parts)));
  return OkStatus();
}

Status Trainer::Register() {
  for (const ProfiledTensor& tensor : model_.tensors) gradients_.emplace_back(tensor.elements);
  for (size_t t = model_.tensors.size(); t-- > 0;) {
    Tensor tensor;
    tensor.spec = {model_.tensors[t].name, model_.tensors[t].elements, options_.route,
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
Status Trainer::Step(uint64_t step, ReplayResult* result) {
  MakeGradients(step);
  RW_RETURN_IF_ERROR(Barrier(session_.get()));
  RW_ASSIGN_OR_RETURN(const double busy_before, BusySeconds());
  const TimePoint start = Now();
  const TimePoint backward = start + Seconds(ForwardSeconds());
  std::this_thread::sleep_until(backward);
  for (size_t t = 0; t < gradients_.size(); ++t) {
    std::this_thread::sleep_until(backward +
                                  Seconds(model_.tensors[t].ready_seconds * options_.scale));
    RW_RETURN_IF_ERROR(session_->Ready(IdOf(t)));
  }
  RW_ASSIGN_OR_RETURN(const StepResult sums, session_->FinishStep());
  double seconds = ToSeconds(Now() - start);
  RW_ASSIGN_OR_RETURN(const double busy, BusySeconds());
  result->busy_cores.push_back((busy - busy_before) / seconds);
  result->bytes_per_worker_per_step = sums.dense_bytes + sums.sparse_bytes;
  RW_RETURN_IF_ERROR(session_->AllReduce(BytesOf(&seconds), DataType::kFloat64, ReduceOp::kMax));
  result->step_seconds.push_back(seconds);
  return OkStatus();
}

// All ranks bring together what their warm-up steps showed.
StatusOr<double> Trainer::Predicted(const ProbeResult& probe) {
  std::vector<double> maxima = ToMaxima(RoundsOf(session_->plan(), profile_->Events()));
  if (!maxima.empty()) {
    RW_RETURN_IF_ERROR(session_->AllReduce(std::as_writable_bytes(std::span(maxima)),
                                           DataType::kFloat64, ReduceOp::kMax));
  }
  const ReplayCosts costs = CostsOf(session_->plan(), model_, FromMaxima(maxima));
  return PredictStep(model_, {.plan = session_->plan(),
                              .density = options_.density,
                              .forward_seconds = ForwardSeconds(),
                              .scale = options_.scale,
                              .world = session_->world(),
                              .hosts = session_->hosts(),
                              .servers = options_.servers,
                              .probe = probe,
                              .costs = costs});
}

StatusOr<ReplayResult> Trainer::Run() {
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds);
  RW_RETURN_IF_ERROR(Register());
  RW_ASSIGN_OR_RETURN(const ProbeResult probe, ProbeRing(session_.get()));
  ReplayResult result;
  result.rank = session_->rank();
  result.world = session_->world();
  result.profile = model_.name;
  result.planner = planner_;
  result.wire = wire_;
  result.compute_seconds = ForwardSeconds() + model_.tensors.back().ready_seconds * options_.scale;
  for (int step = 0; step < options_.warmup + options_.steps; ++step) {
    if (step == options_.warmup) {
      RW_ASSIGN_OR_RETURN(result.predicted_seconds, Predicted(probe));
      result.step_seconds.clear();
      result.busy_cores.clear();
    }
    RW_RETURN_IF_ERROR(Step(step, &result));
  }
  result.median_seconds = Median(result.step_seconds);
  return result;
}

Status Trainer::Close(const Status& outcome) {
  const Status closed = session_->Close(Message(outcome));
  return outcome.ok() ? closed : outcome;
}

}  // namespace

StatusOr<ReplayResult> RunReplay(const ReplayOptions& options,
                                 const std::map<std::string, std::string>& environment) {
  RW_ASSIGN_OR_RETURN(ModelProfile profile, ReadModelProfile(options.profile));
  RW_ASSIGN_OR_RETURN(const SessionOptions session, SessionOptionsOf(environment));
  Trainer trainer(options, std::move(profile));
  RW_RETURN_IF_ERROR(trainer.Open(session));
  StatusOr<ReplayResult> result = trainer.Run();
  RW_RETURN_IF_ERROR(trainer.Close(result.status()));
  return result;
}

}  // namespace ringwood
