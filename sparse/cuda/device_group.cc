#include "sparse/cuda/device_group.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/cuda/device.h"
#include "base/cuda/runtime.h"
#include "base/cuda/stream_marks.h"
#include "sparse/cuda/group_memory.h"
#include "sparse/cuda/launch.h"

namespace ringwood {
namespace {

using cuda::GroupView;
using cuda::TensorOutcome;

class CudaGroup : public DeviceGroup {
 public:
  CudaGroup(cuda::Layout layout, const DeviceGroupOptions& options)
      : options_(options), memory_(std::move(layout)) {}

  ~CudaGroup() override {
    const DeviceScope scope(options_.device);
    if (stream_.get() != nullptr) cudaStreamSynchronize(stream_.get());
  }

  Status Start();

  Status Mark(void* stream) override {
    const DeviceScope scope(options_.device);
    RW_RETURN_IF_ERROR(scope.status());
    return marks_.Record(static_cast<cudaStream_t>(stream));
  }
  Status Accumulate(const std::vector<Gradient>& gradients, float weight,
                    std::function<void()> done) override;
  Status Health() override;
  std::span<const uint32_t> pick_index(size_t t) const override {
    return host_index_.span().subspan(memory_.layout().tensors[t].first_pick, Picked(t));
  }
  std::span<const float> pick_value(size_t t) const override {
    return host_value_.span().subspan(memory_.layout().tensors[t].first_pick, Picked(t));
  }
  double seconds() const override {
    const DeviceScope scope(options_.device);
    return end_.SecondsSince(begin_);
  }
  uint64_t nonfinite() const override;
  void SetSent(size_t t, std::span<const float> values) override;
  Status Commit(std::span<const uint8_t> accepted) override;
  void Abort() override { pending_ = false; }
  Status Scatter(const Entries& sum, double total_weight) override;
  Status ReadResidual(size_t t, std::span<float> into) override {
    return Read(memory_.layout().tensors[t].residual[present_], t, into);
  }
  Status WriteResidual(size_t t, std::span<const float> from) override {
    return Write(memory_.layout().tensors[t].residual[present_], t, from);
  }
  Status ReadMomentum(size_t t, std::span<float> into) override {
    return Read(memory_.layout().tensors[t].momentum[present_], t, into);
  }
  Status WriteMomentum(size_t t, std::span<const float> from) override {
    return Write(memory_.layout().tensors[t].momentum[present_], t, from);
  }

 private:
  Status Enqueue(float weight);
  // Each stream of the trainer's once: `ours` goes on after their marks or after what they hold, or
  // they after `ours`.
  enum class Order { kMarksFirst, kTheirsFirst, kOursFirst };
  Status OrderStreams(Order order);
  uint32_t Picked(size_t t) const { return host_outcomes_.data()[t].picked; }
  template <typename T>
  Status ToHost(const DeviceBuffer<T>& from, const PinnedBuffer<T>& into) {
    return FromCuda(cudaMemcpyAsync(into.data(), from.data(), from.size() * sizeof(T),
                                    cudaMemcpyDeviceToHost, stream_.get()),
                    "copy picks to the host");
  }
  template <typename T>
  Status ToDevice(const PinnedBuffer<T>& from, const DeviceBuffer<T>& into, size_t count) {
    return FromCuda(cudaMemcpyAsync(into.data(), from.data(), count * sizeof(T),
                                    cudaMemcpyHostToDevice, stream_.get()),
                    "copy to the device");
  }
  Status Read(const float* from, size_t t, std::span<float> into);
  Status Write(float* to, size_t t, std::span<const float> from);
  static void CUDART_CB Notify(void* group);  // on a thread of CUDA's

  const DeviceGroupOptions options_;
  uint32_t refine_blocks_ = 0;
  uint32_t present_ = 0;
  bool rounded_ = false;              // what was sent is in host_sent_; else it is the picks
  bool pending_ = false;              // accumulated, neither committed nor aborted
  std::atomic<bool> running_{false};  // Accumulate's work has not called `done`
  std::function<void()> done_;
  std::vector<Gradient> gradients_;  // of the last Accumulate

  CudaStream stream_;
  CudaEvent order_;
  StreamMarks marks_;
  CudaEvent begin_, end_;  // of the last selection
  cuda::GroupMemory memory_;
  DeviceBuffer<float> sent_, result_value_;
  DeviceBuffer<uint8_t> accepted_;
  DeviceBuffer<uint32_t> result_index_;

  PinnedBuffer<float*> host_gradients_;
  PinnedBuffer<TensorOutcome> host_outcomes_;
  PinnedBuffer<uint32_t> host_index_, host_result_index_;
  PinnedBuffer<float> host_value_, host_sent_, host_result_value_;
  PinnedBuffer<uint8_t> host_accepted_;
};

Status CudaGroup::Start() {
  const DeviceScope scope(options_.device);
  RW_RETURN_IF_ERROR(scope.status());
  RW_RETURN_IF_ERROR(stream_.Create());
  RW_RETURN_IF_ERROR(order_.Create());
  RW_RETURN_IF_ERROR(begin_.CreateTimed());
  RW_RETURN_IF_ERROR(end_.CreateTimed());
  RW_RETURN_IF_ERROR(FromCuda(cuda::LoadGroupKernels(), "load the kernels of a group"));
  RW_RETURN_IF_ERROR(FromCuda(cuda::RefineBlocks(&refine_blocks_), "size the refining kernel"));
  const cudaStream_t stream = stream_.get();
  RW_RETURN_IF_ERROR(memory_.Allocate(stream));
  const cuda::Layout& layout = memory_.layout();
  RW_RETURN_IF_ERROR(sent_.Allocate(layout.picks, stream));
  RW_RETURN_IF_ERROR(accepted_.Allocate(layout.picks, stream));
  RW_RETURN_IF_ERROR(result_index_.Allocate(options_.max_result, stream));
  RW_RETURN_IF_ERROR(result_value_.Allocate(options_.max_result, stream));
  RW_RETURN_IF_ERROR(host_gradients_.Allocate(layout.tensors.size(), stream));
  RW_RETURN_IF_ERROR(host_outcomes_.Allocate(layout.tensors.size(), stream));
  RW_RETURN_IF_ERROR(host_index_.Allocate(layout.picks, stream));
  RW_RETURN_IF_ERROR(host_value_.Allocate(layout.picks, stream));
  RW_RETURN_IF_ERROR(host_sent_.Allocate(layout.picks, stream));
  RW_RETURN_IF_ERROR(host_accepted_.Allocate(layout.picks, stream));
  RW_RETURN_IF_ERROR(host_result_index_.Allocate(options_.max_result, stream));
  return host_result_value_.Allocate(options_.max_result, stream);
}

Status CudaGroup::Accumulate(const std::vector<Gradient>& gradients, float weight,
                             std::function<void()> done) {
  RW_CHECK(gradients.size() == memory_.layout().tensors.size());
  if (running_) return Refused("the selection before this one has not ended on the device");
  const DeviceScope scope(options_.device);
  RW_RETURN_IF_ERROR(scope.status());
  gradients_ = gradients;
  std::transform(gradients.begin(), gradients.end(), host_gradients_.data(),
                 [](const Gradient& gradient) { return gradient.data; });
  done_ = std::move(done);
  rounded_ = false;
  running_ = true;
  const Status enqueued = Enqueue(weight);
  if (!enqueued.ok()) running_ = false;
  pending_ = enqueued.ok();
  return enqueued;
}

Status CudaGroup::OrderStreams(Order order) {
  for (size_t t = 0; t < gradients_.size(); ++t) {
    const auto same = [&](const Gradient& other) { return other.stream == gradients_[t].stream; };
    if (std::any_of(gradients_.begin(), gradients_.begin() + t, same)) continue;
    cudaStream_t earlier = static_cast<cudaStream_t>(gradients_[t].stream), later = stream_.get();
    if (order == Order::kMarksFirst) {
      RW_RETURN_IF_ERROR(marks_.Await(later, earlier));
      continue;
    }
    if (order == Order::kOursFirst) std::swap(earlier, later);
    RW_RETURN_IF_ERROR(order_.Order(earlier, later));
  }
  return OkStatus();
}

Status CudaGroup::Health() {
  const DeviceScope scope(options_.device);
  RW_RETURN_IF_ERROR(scope.status());
  const cudaError_t error = cudaStreamQuery(stream_.get());
  if (error != cudaErrorNotReady) return FromCuda(error, "select on the device");
  (void)cudaGetLastError();  // that it is not ready is no error of the next launch
  return OkStatus();
}

Status CudaGroup::Enqueue(float weight) {
  RW_RETURN_IF_ERROR(OrderStreams(Order::kMarksFirst));
  RW_RETURN_IF_ERROR(begin_.Record(stream_.get()));
  RW_RETURN_IF_ERROR(ToDevice(host_gradients_, memory_.gradients(), host_gradients_.size()));
  const GroupView view = memory_.View(present_);
  RW_RETURN_IF_ERROR(FromCuda(cuda::LaunchAccumulate(view, {weight, options_.decay}, stream_.get()),
                              "start the accumulating kernel"));
  RW_RETURN_IF_ERROR(FromCuda(cuda::LaunchRefine(view, refine_blocks_, stream_.get()),
                              "start the refining kernel"));
  RW_RETURN_IF_ERROR(ToHost(memory_.outcomes(), host_outcomes_));
  RW_RETURN_IF_ERROR(ToHost(memory_.pick_index(), host_index_));
  RW_RETURN_IF_ERROR(ToHost(memory_.pick_value(), host_value_));
  RW_RETURN_IF_ERROR(end_.Record(stream_.get()));
  return FromCuda(cudaLaunchHostFunc(stream_.get(), &CudaGroup::Notify, this),
                  "ask CUDA for a notice");
}

void CUDART_CB CudaGroup::Notify(void* group) {
  auto* const self = static_cast<CudaGroup*>(group);
  const std::function<void()> done = std::exchange(self->done_, nullptr);
  self->running_ = false;
  done();
}

uint64_t CudaGroup::nonfinite() const {
  uint64_t sum = 0;
  for (const TensorOutcome& outcome : host_outcomes_.span()) sum += outcome.nonfinite;
  return sum;
}

void CudaGroup::SetSent(size_t t, std::span<const float> values) {
  RW_CHECK(pending_ && !running_ && values.size() == Picked(t));
  if (!std::exchange(rounded_, true)) {  // of the others, the picks
    std::copy(host_value_.span().begin(), host_value_.span().end(), host_sent_.data());
  }
  std::copy(values.begin(), values.end(),
            host_sent_.data() + memory_.layout().tensors[t].first_pick);
}

Status CudaGroup::Commit(std::span<const uint8_t> accepted) {
  RW_CHECK(pending_ && !running_);
  size_t next = 0;
  for (size_t t = 0; t < memory_.layout().tensors.size(); ++t) {
    RW_CHECK(next + Picked(t) <= accepted.size());
    std::copy_n(accepted.begin() + next, Picked(t),
                host_accepted_.data() + memory_.layout().tensors[t].first_pick);
    next += Picked(t);
  }
  RW_CHECK(next == accepted.size());
  const DeviceScope scope(options_.device);
  RW_RETURN_IF_ERROR(scope.status());
  if (rounded_) RW_RETURN_IF_ERROR(ToDevice(host_sent_, sent_, memory_.layout().picks));
  const float* const sent = (rounded_ ? sent_ : memory_.pick_value()).data();
  RW_RETURN_IF_ERROR(ToDevice(host_accepted_, accepted_, memory_.layout().picks));
  RW_RETURN_IF_ERROR(
      FromCuda(cuda::LaunchSettle(memory_.View(present_), sent, accepted_.data(), options_.masking,
                                  memory_.layout().picks, stream_.get()),
               "start the committing kernel"));
  present_ = 1 - present_;
  pending_ = false;
  return OkStatus();
}

Status CudaGroup::Scatter(const Entries& sum, double total_weight) {
  RW_CHECK(!running_ && gradients_.size() == memory_.layout().tensors.size());
  if (sum.size() > options_.max_result) {
    return Exhausted(absl::StrFormat("a result of %d entries where %d were agreed", sum.size(),
                                     options_.max_result));
  }
  const cuda::TensorView& last = memory_.layout().tensors.back();
  RW_CHECK(sum.size() == 0 || sum.index.back() < last.first + last.elements);
  const DeviceScope scope(options_.device);
  RW_RETURN_IF_ERROR(scope.status());
  // `done` came behind the copies of the step before: the pinned arrays are free.
  RW_RETURN_IF_ERROR(OrderStreams(Order::kTheirsFirst));
  std::copy(sum.index.begin(), sum.index.end(), host_result_index_.data());
  std::copy(sum.value.begin(), sum.value.end(), host_result_value_.data());
  RW_RETURN_IF_ERROR(ToDevice(host_result_index_, result_index_, sum.size()));
  RW_RETURN_IF_ERROR(ToDevice(host_result_value_, result_value_, sum.size()));
  const cuda::ResultView result{result_index_.data(), result_value_.data(),
                                static_cast<uint32_t>(sum.size()), total_weight};
  RW_RETURN_IF_ERROR(FromCuda(cuda::LaunchScatter(memory_.View(present_), result, stream_.get()),
                              "start the scattering kernel"));
  return OrderStreams(Order::kOursFirst);
}

Status CudaGroup::Read(const float* from, size_t t, std::span<float> into) {
  RW_CHECK(from != nullptr && into.size() == memory_.layout().tensors[t].elements);
  const DeviceScope scope(options_.device);
  RW_RETURN_IF_ERROR(scope.status());
  RW_RETURN_IF_ERROR(FromCuda(
      cudaMemcpyAsync(into.data(), from, into.size_bytes(), cudaMemcpyDeviceToHost, stream_.get()),
      "read state from the device"));
  return FromCuda(cudaStreamSynchronize(stream_.get()), "read state from the device");
}

Status CudaGroup::Write(float* to, size_t t, std::span<const float> from) {
  RW_CHECK(to != nullptr && from.size() == memory_.layout().tensors[t].elements && !pending_);
  const DeviceScope scope(options_.device);
  RW_RETURN_IF_ERROR(scope.status());
  RW_RETURN_IF_ERROR(FromCuda(
      cudaMemcpyAsync(to, from.data(), from.size_bytes(), cudaMemcpyHostToDevice, stream_.get()),
      "write state to the device"));
  return FromCuda(cudaStreamSynchronize(stream_.get()), "write state to the device");
}

}  // namespace

StatusOr<std::unique_ptr<DeviceGroup>> MakeDeviceGroup(const std::vector<cuda::TensorShape>& shapes,
                                                       const DeviceGroupOptions& options) {
  RW_RETURN_IF_ERROR(CountDevices().status());
  RW_ASSIGN_OR_RETURN(cuda::Layout layout, cuda::LayOut(shapes));
  auto group = std::make_unique<CudaGroup>(std::move(layout), options);
  RW_RETURN_IF_ERROR(group->Start());
  return std::unique_ptr<DeviceGroup>(std::move(group));
}

}  // namespace ringwood
