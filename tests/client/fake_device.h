// A device in one process: its memory is the host's, its streams are threads, its rings add when
// the last rank has come. Everything is as late as on a device: nothing has happened when a call
// returns, only the order that streams promise is kept.
#pragma once

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "client/exchange/accelerator.h"
#include "client/exchange/gradient.h"
#include "client/exchange/scale.h"
#include "dense/arithmetic/reduce.h"
#include "dense/cuda/word_digest.h"
#include "sparse/sparse_tensor.h"

namespace ringwood {

class FakeStream {
 public:
  FakeStream() : thread_([this] { Run(); }) {}
  ~FakeStream() {
    Put(nullptr);
    thread_.join();
  }
  void Put(std::function<void()> task) {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  // What is put here from now on runs after what `earlier` holds now.
  void Await(FakeStream* earlier) {
    auto reached = std::make_shared<absl::Notification>();
    earlier->Put([reached] { reached->Notify(); });
    Put([reached] { reached->WaitForNotification(); });
  }
  void Wait() {
    absl::Notification reached;
    Put([&] { reached.Notify(); });
    reached.WaitForNotification();
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> task;
      {
        absl::MutexLock lock(&mutex_);
        const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !tasks_.empty(); };
        mutex_.Await(absl::Condition(&any));
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      if (task == nullptr) return;
      task();
    }
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// What streams held when a gradient was ready.
class FakeMarks {
 public:
  static inline thread_local int recorded = 0;  // by this thread

  void Record(FakeStream* stream) {
    ++recorded;
    auto reached = std::make_shared<absl::Notification>();
    stream->Put([reached] { reached->Notify(); });
    marks_[stream] = std::move(reached);
  }
  void Await(FakeStream* later, FakeStream* stream) {
    const auto mark = std::exchange(marks_[stream], nullptr);
    if (mark == nullptr) return later->Await(stream);
    later->Put([mark] { mark->WaitForNotification(); });
  }
  // Of a stream once, by the tensors that use it.
  template <typename Tensors>
  void AwaitAll(FakeStream* later, const Tensors& tensors) {
    std::set<void*> seen;
    for (const auto& tensor : tensors) {
      if (seen.insert(tensor.stream).second) Await(later, static_cast<FakeStream*>(tensor.stream));
    }
  }

 private:
  std::map<FakeStream*, std::shared_ptr<absl::Notification>> marks_;
};

// Where the rings of a job meet.
class FakeRings {
 public:
  struct Part {
    DeviceReduction reduction;
    std::function<void(AllReduceResult)> ended;
  };
  explicit FakeRings(int world) : world_(world) {}

  std::string id() const { return std::string(kDeviceRingIdBytes, 'r'); }

  void Arrive(uint64_t sequence, int rank, Part part) {
    absl::MutexLock lock(&mutex_);
    auto& parts = waiting_[sequence];
    parts[rank] = std::move(part);
    if (static_cast<int>(parts.size()) < world_) return;
    if (parts.begin()->second.reduction.codes.bits != 0) {
      AddCodes(parts);
    } else {
      Add(parts);
    }
    waiting_.erase(sequence);
  }

  void Close(int rank, const Status& reason) {
    absl::MutexLock lock(&mutex_);
    closed_.emplace(rank, reason);
  }
  Status ReasonOf(int rank) {
    absl::MutexLock lock(&mutex_);
    const auto found = closed_.find(rank);
    return found == closed_.end() ? OkStatus() : found->second;
  }

 private:
  using Parts = std::map<int, Part>;

  void Add(const Parts& parts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const DeviceReduction& first = parts.begin()->second.reduction;
    const uint64_t bytes = first.count * SizeOf(first.type);
    std::vector<std::byte> sum(bytes);
    for (const auto& [from, each] : parts) {
      Reduce(first.type, ReduceOp::kSum, sum.data(), each.reduction.input, sum.data(), first.count);
    }
    for (const auto& [to, each] : parts) {
      if (closed_.count(to) != 0) continue;  // its memory may be gone
      std::copy(sum.begin(), sum.end(), static_cast<std::byte*>(each.reduction.output));
      each.ended({WordDigest(sum.data(), bytes), 8});
    }
  }

  // By the CPU's codec: the kernels' tests say that they have its bits.
  void AddCodes(const Parts& parts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!closed_.empty()) return;  // whose memory may be gone
    const DeviceReduction& any = parts.begin()->second.reduction;
    const int levels = LatticeLevels(any.codes.bits);
    const size_t blocks = LatticeBlocks(any.count);
    std::vector<std::byte> partial, sum;
    for (const auto& [rank, each] : parts) {
      const DeviceReduction& r = each.reduction;
      sum.assign(PackedBytes(blocks, LatticeWidth(levels, rank + 1)), std::byte{0});
      AddSource({static_cast<const float*>(r.input), r.codes.error, r.codes.next_error,
                 r.codes.reach, r.count, levels, r.codes.less},
                partial.data(), rank, sum.data());
      partial.swap(sum);
    }
    for (const auto& [to, each] : parts) {
      const DeviceReduction& r = each.reduction;
      DecodeSum(
          partial.data(), world_,
          {static_cast<float*>(r.output), r.codes.reach, r.codes.next_reach, r.count, levels});
      const BlockReach most = *std::max_element(r.codes.next_reach, r.codes.next_reach + blocks);
      each.ended(
          {WordDigest(r.output, r.count * sizeof(float)), partial.size(), most > kLargestReach});
    }
  }

  const int world_;
  absl::Mutex mutex_;
  std::map<uint64_t, Parts> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<int, Status> closed_ ABSL_GUARDED_BY(mutex_);
};

class FakeRing : public DeviceRing, public std::enable_shared_from_this<FakeRing> {
 public:
  FakeRing(Loop* loop, FakeRings* rings, const DeviceRingOptions& options)
      : loop_(loop), rings_(rings), options_(options) {}

  void AllReduce(const DeviceReduction& reduction,
                 std::function<void(StatusOr<AllReduceResult>)> done) override {
    if (!closed_.ok()) return done(closed_);
    const uint64_t sequence = next_++;
    pending_[sequence] = std::move(done);
    stream_.Await(static_cast<FakeStream*>(reduction.producer));
    stream_.Put([self = shared_from_this(), sequence, reduction] {
      self->rings_->Arrive(sequence, self->options_.rank,
                           {reduction, [self, sequence](AllReduceResult result) {
                              self->loop_->PostReserved(
                                  [self, sequence, result] { self->Answer(sequence, result); });
                            }});
    });
  }
  void Broadcast(const DeviceBroadcast&, std::function<void(Status)> done) override {
    done(Internal("nobody asks for it"));
  }
  Status Close(const Status& reason) override {
    if (!closed_.ok()) return OkStatus();
    closed_ = reason;
    rings_->Close(options_.rank, reason);
    stream_.Wait();  // what it runs holds this, and must not be the last to
    while (!pending_.empty()) Answer(pending_.begin()->first, reason);
    return OkStatus();
  }

 private:
  void Answer(uint64_t sequence, StatusOr<AllReduceResult> result) {
    const auto found = pending_.find(sequence);
    if (found == pending_.end()) return;  // answered by Close
    auto done = std::move(found->second);
    pending_.erase(found);
    done(std::move(result));
  }

  Loop* const loop_;
  FakeRings* const rings_;
  const DeviceRingOptions options_;
  std::map<uint64_t, std::function<void(StatusOr<AllReduceResult>)>> pending_;
  uint64_t next_ = 0;
  Status closed_;
  FakeStream stream_;
};

class FakeBucket : public DeviceBucket {
 public:
  explicit FakeBucket(uint64_t elements, Status health = OkStatus(),
                      DataType type = DataType::kFloat32)
      : elements_(elements),
        type_(type),
        input_(MemoryOf(elements * SizeOf(type))),
        health_(std::move(health)) {}
  ~FakeBucket() override { stream_.Wait(); }

  Status Mark(void* stream) override {
    marks_.Record(static_cast<FakeStream*>(stream));
    return OkStatus();
  }
  Status Pack(std::span<const Part> parts, float weight) override {
    stream_.Put([this] { largest_ = 0; });
    marks_.AwaitAll(&stream_, parts);
    for (const Part& part : parts) {
      stream_.Put([this, part, weight] {
        Tensor tensor = TensorOf(part);
        std::vector<float> sum(part.elements);
        if (weight != 0) ReadGradient(tensor, sum);
        for (size_t i = 0; i < sum.size(); ++i) {
          sum[i] *= weight;
          if (!owed_.empty()) sum[i] += owed_[part.first + i];
          largest_ = std::max(largest_, std::bit_cast<uint32_t>(sum[i]) & 0x7fffffffu);
        }
        tensor.data = input_->data() + part.first * SizeOf(type_);
        WriteGradient(tensor, 0, sum);
      });
    }
    return OkStatus();
  }
  Status Owe(uint64_t first, std::span<const float> values) override {
    owed_.resize(elements_);
    std::copy(values.begin(), values.end(), owed_.begin() + first);
    return OkStatus();
  }
  void Forgive() override { owed_.clear(); }
  uint32_t largest() const override { return largest_; }
  Status Unpack(std::span<const Part> parts, double total) override {
    for (const Part& part : parts) {
      const Tensor tensor = TensorOf(part);
      static_cast<FakeStream*>(part.stream)->Put([output = Output(), part, total, tensor] {
        const size_t width = SizeOf(tensor.type);
        UnpackSum(std::span(*output).subspan(part.first * width, part.elements * width),
                  tensor.type, total, tensor);
      });
    }
    return OkStatus();
  }
  Status UseCodes(int bits, BlockReach less) override {
    bits_ = bits;
    less_ = less;
    error_ = MemoryOf(input_->size());
    sum_ = MemoryOf(input_->size());
    reach_.resize(LatticeBlocks(elements_));
    next_reach_.resize(reach_.size());
    return OkStatus();
  }
  DeviceCodes codes() const override {
    if (bits_ == 0) return {};
    return {bits_, FloatsOf(error_), FloatsOf(input_), reach_.data(), next_reach_.data(), less_};
  }
  void Commit() override {
    if (bits_ == 0) return;
    error_.swap(input_);
    reach_.swap(next_reach_);
  }
  Status ReadError(uint64_t first, std::span<float> into) const override {
    if (!health_.ok()) return health_;
    std::copy_n(FloatsOf(error_) + first, into.size(), into.begin());
    return OkStatus();
  }
  Status ReadReach(uint64_t first, std::span<BlockReach> into) const override {
    std::copy_n(reach_.begin() + first, into.size(), into.begin());
    return OkStatus();
  }
  Status WriteReach(uint64_t first, std::span<const BlockReach> from) override {
    std::copy(from.begin(), from.end(), reach_.begin() + first);
    return OkStatus();
  }
  const void* input() const override { return input_->data(); }
  void* output() override { return Output()->data(); }
  DataType type() const override { return type_; }
  uint64_t elements() const override { return elements_; }
  void* stream() const override { return &stream_; }

 private:
  // Freeing memory waits for the whole device: what other streams read outlives the bucket.
  using Memory = std::shared_ptr<std::vector<std::byte>>;
  static Memory MemoryOf(size_t bytes) { return std::make_shared<std::vector<std::byte>>(bytes); }
  static float* FloatsOf(const Memory& memory) { return reinterpret_cast<float*>(memory->data()); }
  const Memory& Output() const { return bits_ == 0 ? input_ : sum_; }
  Tensor TensorOf(const Part& part) const {
    return {.spec = {"", part.elements}, .data = part.data, .type = type_};
  }

  const uint64_t elements_;
  const DataType type_;
  Memory input_;
  std::vector<float> owed_;  // empty: nothing
  int bits_ = 0;             // of codes
  BlockReach less_ = 0;
  Memory error_, sum_;  // with codes, and the next errors are in input_
  mutable std::vector<BlockReach> reach_, next_reach_;
  const Status health_;  // what reading errors returns
  uint32_t largest_ = 0;
  FakeMarks marks_;
  mutable FakeStream stream_;
};

// The plain CPU selection behind a stream.
class FakeGroup : public DeviceGroup {
 public:
  // `health`, where there is one: what goes wrong with the device, which then never calls back.
  FakeGroup(const std::vector<cuda::TensorShape>& shapes, const DeviceGroupOptions& options,
            std::function<Status()> health)
      : options_(options), health_(std::move(health)) {
    for (const cuda::TensorShape& shape : shapes) {
      SparseOptions sparse;
      sparse.k = shape.k;
      sparse.momentum = shape.momentum;
      sparse.decay = options.decay;
      states_.push_back(std::make_unique<SparseTensor>(shape.elements, sparse));
      states_.back()->set_masking(options.masking);
    }
  }
  ~FakeGroup() override { stream_.Wait(); }

  Status Mark(void* stream) override {
    marks_.Record(static_cast<FakeStream*>(stream));
    return OkStatus();
  }
  Status Accumulate(const std::vector<Gradient>& gradients, float weight,
                    std::function<void()> done) override {
    gradients_ = gradients;
    marks_.AwaitAll(&stream_, gradients);
    stream_.Put([this, gradients, weight, done = std::move(done)] {
      nonfinite_ = 0;
      const TimePoint begin = Now();
      for (size_t t = 0; t < states_.size(); ++t) {
        const std::vector<float> zeros(weight == 0 ? states_[t]->elements() : 0);
        const float* const data = weight == 0 ? zeros.data() : gradients[t].data;
        nonfinite_ += states_[t]->Accumulate({data, states_[t]->elements()}, weight);
      }
      seconds_ = ToSeconds(Now() - begin);
      if (Health().ok()) done();
    });
    return OkStatus();
  }
  Status Health() override { return health_ ? health_() : OkStatus(); }
  std::span<const uint32_t> pick_index(size_t t) const override {
    return states_[t]->picks().index;
  }
  std::span<const float> pick_value(size_t t) const override { return states_[t]->picks().value; }
  double seconds() const override { return seconds_; }
  uint64_t nonfinite() const override { return nonfinite_; }
  void SetSent(size_t t, std::span<const float> values) override { states_[t]->SetSent(values); }

  Status Commit(std::span<const uint8_t> accepted) override {
    stream_.Put([this, bits = std::vector<uint8_t>(accepted.begin(), accepted.end())] {
      size_t at = 0;
      for (const auto& state : states_) {
        const size_t picks = state->picks().size();
        state->Commit(std::span(bits).subspan(at, picks));
        at += picks;
      }
    });
    return OkStatus();
  }
  // After a failure the device may be at work still.
  void Abort() override {
    stream_.Put([this] {
      for (const auto& state : states_) state->Abort();
    });
  }

  Status Scatter(const Entries& sum, double total_weight) override {
    if (sum.size() > options_.max_result) return Exhausted("more entries than were agreed");
    for (const Gradient& gradient : gradients_) {
      stream_.Await(static_cast<FakeStream*>(gradient.stream));
    }
    stream_.Put([this, sum, total_weight, gradients = gradients_] {
      size_t at = 0;
      uint64_t first = 0;
      for (size_t t = 0; t < states_.size(); ++t) {
        const uint64_t elements = states_[t]->elements();
        std::fill_n(gradients[t].data, elements, 0.0f);
        for (; at < sum.size() && sum.index[at] < first + elements; ++at) {
          const double average = total_weight == 0 ? 0 : sum.value[at] / total_weight;
          gradients[t].data[sum.index[at] - first] = static_cast<float>(average);
        }
        first += elements;
      }
    });
    for (const Gradient& gradient : gradients_) {
      static_cast<FakeStream*>(gradient.stream)->Await(&stream_);
    }
    return OkStatus();
  }

  Status ReadResidual(size_t t, std::span<float> into) override {
    stream_.Wait();
    std::copy_n(states_[t]->residual().data(), into.size(), into.data());
    return OkStatus();
  }
  Status WriteResidual(size_t t, std::span<const float> from) override {
    std::copy(from.begin(), from.end(), states_[t]->mutable_residual().begin());
    return OkStatus();
  }
  Status ReadMomentum(size_t t, std::span<float> into) override {
    stream_.Wait();
    std::copy_n(states_[t]->mutable_momentum().data(), into.size(), into.data());
    return OkStatus();
  }
  Status WriteMomentum(size_t t, std::span<const float> from) override {
    std::copy(from.begin(), from.end(), states_[t]->mutable_momentum().begin());
    return OkStatus();
  }

 private:
  const DeviceGroupOptions options_;
  const std::function<Status()> health_;
  std::vector<std::unique_ptr<SparseTensor>> states_;
  std::vector<Gradient> gradients_;
  double seconds_ = 0;
  uint64_t nonfinite_ = 0;
  FakeMarks marks_;
  mutable FakeStream stream_;
};

inline Accelerator FakeAccelerator(FakeRings* rings) {
  Accelerator accelerator;
  accelerator.make_ring_id = [rings]() -> StatusOr<std::string> { return rings->id(); };
  accelerator.make_ring =
      [rings](Loop* loop,
              const DeviceRingOptions& options) -> StatusOr<std::unique_ptr<DeviceRing>> {
    if (options.world > 1 && options.id != rings->id()) return Internal("the id of another ring");
    return std::unique_ptr<DeviceRing>(
        std::make_unique<DeviceRingHandle>(std::make_shared<FakeRing>(loop, rings, options)));
  };
  accelerator.make_bucket = [](int, uint64_t elements,
                               DataType type) -> StatusOr<std::unique_ptr<DeviceBucket>> {
    return std::unique_ptr<DeviceBucket>(std::make_unique<FakeBucket>(elements, OkStatus(), type));
  };
  accelerator.make_group =
      [](const std::vector<cuda::TensorShape>& shapes,
         const DeviceGroupOptions& options) -> StatusOr<std::unique_ptr<DeviceGroup>> {
    return std::unique_ptr<DeviceGroup>(std::make_unique<FakeGroup>(shapes, options, nullptr));
  };
  return accelerator;
}

}  // namespace ringwood
