// One job of several steps, run with its gradients on the host, on a device in this process
// (fake_device.h) or on a real one: what came out, to be compared bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/cuda/device.h"
#include "base/random.h"
#include "tests/client/fake_device.h"
#include "tests/client/job.h"

namespace ringwood {

enum class Where { kHost, kFake, kReal };

// A gradient of a session, wherever it lies.
class Placed {
 public:
  // `tensor` without data; `stream` of a fake device.
  Placed(Session& session, Tensor tensor, Where where, FakeStream* stream)
      : elements_(tensor.spec.elements), stream_(where == Where::kFake ? stream : nullptr) {
    if (where == Where::kReal) {
      array_ = *MakeDeviceArray(0, elements_ * sizeof(float));
      tensor.data = static_cast<float*>(array_->data());
    } else {
      host_.resize(elements_);
      tensor.data = host_.data();
    }
    if (where != Where::kHost) tensor.device = OnDevice{0, stream_};
    const StatusOr<int> registered = session.Register(tensor);
    EXPECT_TRUE(registered.ok()) << registered.status();
    id = registered.value_or(-1);
  }

  ~Placed() {
    if (stream_ != nullptr) stream_->Wait();  // as cudaFree does
  }
  Placed(const Placed&) = delete;

  // On a stream: long after this has returned.
  void Set(std::vector<float> values) {
    if (array_ != nullptr) {
      EXPECT_TRUE(array_->Upload(std::as_bytes(std::span(values))).ok());
    } else if (stream_ != nullptr) {
      stream_->Put([this, values = std::move(values)] {
        absl::SleepFor(absl::Milliseconds(2));
        host_ = values;
      });
    } else {
      std::copy(values.begin(), values.end(), host_.begin());
    }
  }
  std::vector<float> Get() {
    if (stream_ != nullptr) stream_->Wait();
    if (array_ == nullptr) return host_;
    std::vector<float> values(elements_);
    EXPECT_TRUE(array_->Download(std::as_writable_bytes(std::span(values))).ok());
    return values;
  }

  int id = -1;

 private:
  const size_t elements_;
  FakeStream* const stream_;
  std::vector<float> host_;
  std::unique_ptr<DeviceArray> array_;
};

struct PlacedScript {
  Job job;  // without an accelerator
  std::vector<Tensor> tensors;
  uint64_t from = 0, to = 8;  // steps
  bool integers = false;      // gradients whose sums are exact
  std::function<double(int rank, uint64_t step)> weight = nullptr;  // nothing: 1
  // Before the first step of a rank.
  std::function<void(GatheringCoordinator&)> prepare = nullptr;
};

struct Outcome {
  using Bits = std::vector<uint32_t>;
  std::vector<Bits> results;        // of each step, rank and tensor, in this order
  std::vector<Bits> residuals;      // at the end, of each rank and tensor
  std::vector<std::string> routes;  // of each step and tensor
  std::vector<int> skipped;         // of each step
  uint64_t sparse_bytes = 0;        // that rank 0 sent
  bool operator==(const Outcome&) const = default;
};

inline Outcome::Bits BitsOf(std::span<const float> values) {
  Outcome::Bits bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// NaN where the weight is 0, which nobody may read, and in one place of step 3 on rank 1.
inline std::vector<float> GradientOf(const PlacedScript& script, int rank, uint64_t step, size_t t,
                                     double weight) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values(script.tensors[t].spec.elements, kNaN);
  if (weight == 0) return values;
  Random random(1000 * step + 10 * t + rank);
  for (float& value : values) {
    value = script.integers ? static_cast<float>(random.Below(21)) - 10
                            : static_cast<float>((random.Unit() - 0.5) * (1 << random.Below(9)));
  }
  if (step == 3 && rank == 1 && t == 0) values[std::min<size_t>(5, values.size() - 1)] = kNaN;
  return values;
}

inline void PlayRank(const PlacedScript& script, Where where, Session& session,
                     GatheringCoordinator& coordinator, std::vector<FakeStream>& streams,
                     Outcome* outcome) {
  const int rank = session.rank(), world = session.world();
  const size_t count = script.tensors.size();
  std::vector<std::unique_ptr<Placed>> placed;
  for (size_t t = 0; t < count; ++t) {
    placed.push_back(
        std::make_unique<Placed>(session, script.tensors[t], where, &streams[t % streams.size()]));
  }
  if (script.prepare) script.prepare(coordinator);
  for (uint64_t step = script.from; step < script.to; ++step) {
    const double weight = script.weight ? script.weight(rank, step) : 1;
    const Status begun = session.BeginStep(weight);
    ASSERT_TRUE(begun.ok()) << begun;
    for (size_t t = count; t-- > 0;) {
      placed[t]->Set(GradientOf(script, rank, step, t, weight));
      ASSERT_TRUE(session.Ready(placed[t]->id).ok());
      if (rank == 0) outcome->routes.push_back(session.route(placed[t]->id));
    }
    const auto result = session.FinishStep();
    ASSERT_TRUE(result.ok()) << result.status();
    if (rank == 0) outcome->skipped.push_back(result->skipped);
    if (rank == 0) outcome->sparse_bytes += result->sparse_bytes;
    for (size_t t = 0; t < count; ++t) {
      outcome->results[((step - script.from) * world + rank) * count + t] =
          BitsOf(placed[t]->Get());
    }
  }
  for (size_t t = 0; t < count; ++t) {
    std::vector<float> residual(script.tensors[t].spec.elements);
    ASSERT_TRUE(session.Residual(placed[t]->id, residual).ok());
    outcome->residuals[rank * count + t] = BitsOf(residual);
  }
  ASSERT_TRUE(session.Checkpoint({}).ok());
  EXPECT_TRUE(session.Close("").ok());
}

inline Outcome Play(const PlacedScript& script, Where where) {
  Outcome outcome;
  const size_t count = script.tensors.size(), world = script.job.world;
  outcome.results.resize((script.to - script.from) * world * count);
  outcome.residuals.resize(world * count);
  Job job = script.job;
  job.base_step = script.from;
  job.has_checkpoint = script.from > 0;
  FakeRings rings(job.world);
  if (where == Where::kFake) job.accelerator = [&](int) { return FakeAccelerator(&rings); };
  RunOwningJob(job, [&](std::unique_ptr<Session> session, GatheringCoordinator& coordinator) {
    std::vector<FakeStream> streams(2);
    PlayRank(script, where, *session, coordinator, streams, &outcome);
    session.reset();  // before the streams
  });
  return outcome;
}

inline Tensor TensorOf(const std::string& name, uint64_t elements, const std::string& route,
                       double density = 0.02, std::optional<double> momentum = std::nullopt) {
  Tensor tensor;
  tensor.spec = {name, elements, route, density};
  tensor.momentum = momentum;
  return tensor;
}

}  // namespace ringwood
