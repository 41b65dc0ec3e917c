// Whole steps of sessions against a reference that was written from docs/dense.md ("To the bit"),
// docs/sparse.md ("To the bit") and the comments of sparse/value_code.h: plain loops over whole
// numbers and doubles that share nothing with the engines. Averages and residuals have the same
// bits after every step.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "client/session.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

using Floats = std::vector<float>;

constexpr int kReferenceSteps = 6;

uint32_t RawBits(float value) { return std::bit_cast<uint32_t>(value); }

// What a rank brings of tensor `tensor` in a step: stretches of 48 elements of different kinds, so
// that blocks of 64 have one kind or two, and another one in the next step.
Floats BroughtBy(int rank, int step, int tensor, size_t elements) {
  Random random(1 + 1000 * step + 10 * rank + tensor);
  Floats values(elements);
  for (size_t i = 0; i < elements; ++i) {
    const double unit = random.Unit() * 2 - 1;
    switch ((i / 48 + 3 * step) % 9) {
      case 0:
        values[i] = 0.0f;
        break;
      case 1:
        values[i] = rank % 2 == 0 ? -0.0f : 0.0f;
        break;
      case 2:  // denormal
        values[i] = std::bit_cast<float>(static_cast<uint32_t>(random.Below(1 << 23))) *
                    (unit < 0 ? -1.0f : 1.0f);
        break;
      case 3:
        values[i] = static_cast<float>(unit * 1e-29);
        break;
      case 4:
        values[i] = static_cast<float>(unit * 1e30);
        break;
      case 5:  // ties, of magnitudes and between two codes
        values[i] = rank % 2 == 0
                        ? static_cast<float>(static_cast<int>(random.Below(9)) - 4) / 4
                        : static_cast<float>(static_cast<int>(random.Below(205)) - 102) * 5 / 512;
        break;
      case 6:  // one that is large beside its neighbours
        values[i] = static_cast<float>(i % 48 == 5 ? unit * 1e9 : unit);
        break;
      default:
        values[i] = static_cast<float>(unit * unit * unit);
    }
  }
  return values;
}

// One rank of a step, by tensor.
struct ReferenceStep {
  std::vector<Floats> average, residual;
};

struct ReferenceCase {
  std::string wire = "fp32";
  std::string codec = "rice/fp32";
  std::string merge = "gtopk";
  bool reducer = false;
  double density = 0;  // 0: dense
  double wire_reach = 1;
  std::vector<size_t> elements = {};
  std::vector<double> weights = {};  // one a rank; a rank of weight 0 brings NaN
};

float ReferenceAverage(float sum, double total) {
  const auto divisor = static_cast<float>(total);
  return double{divisor} == total ? sum / divisor : static_cast<float>(sum / total);
}

// ---- dense: int8 and int4 ----

// One block of 64 elements, of all ranks.
struct ReferenceBlock {
  int place = 0;  // of the reach; 0: not known

  double Scale(int levels) const {
    if (place < (127 - 96) * 128) return 0;
    const double reach = std::ldexp(1 + place % 128 / 128.0, place / 128 - 127);
    int exponent = 0;
    const double part = std::frexp(reach * (levels == 127 ? 4 : 1) / levels, &exponent);
    return std::ldexp(std::ceil(part * 8), exponent - 3);
  }
  void Learn(double largest, int less) {
    const int seen = static_cast<int>((RawBits(static_cast<float>(largest)) + 0xffffu) >> 16);
    const bool known = place >= (127 - 96) * 128;
    const int base = (known ? place : (127 - 96) * 128) - 128;
    const int above = seen - less - base;
    int told = 0;  // where it is, as the word says it: rounded up
    if (above > 0 && known && above <= 1024) {
      told = base + (above + 7) / 8 * 8;
    } else if (above > 0 && known) {
      told = base + 1024 + std::min((above - 1024 + 127) / 128, 126) * 128;
    } else if (above > 0) {
      told = base + (above + 127) / 128 * 128;
    } else if (known) {
      told = base;
    }
    place = told >= place ? told : place - std::min((place - told) / 4, 32);
  }
};

struct CodedReference {
  std::vector<ReferenceBlock> blocks;
  std::vector<Floats> error;  // by rank

  Floats Step(const std::vector<Floats>& brought, const std::vector<double>& weights, int levels,
              int less) {
    double total = 0;
    for (const double weight : weights) total += weight;
    Floats average(brought[0].size());
    for (size_t b = 0; b < blocks.size(); ++b) {
      const double scale = blocks[b].Scale(levels);
      const auto step = static_cast<float>(scale);
      double largest = 0;
      for (size_t i = b * 64; i < std::min(average.size(), (b + 1) * 64); ++i) {
        int sum = 0;
        for (size_t r = 0; r < brought.size(); ++r) {
          const auto weight = static_cast<float>(weights[r]);
          const float x = weight == 0 ? 0.0f : brought[r][i];
          const float product = weight * x;
          const float value = product + error[r][i];
          largest = std::max(largest, std::fabs(double{value}));
          int code = 0;
          if (std::fabs(double{value}) < scale * 0x1p21) {
            const float inverse = 1 / step;
            const float quotient = value * inverse;
            code = static_cast<int>(std::nearbyint(std::clamp<double>(quotient, -levels, levels)));
          }
          const long double left = static_cast<long double>(value) - code * scale;
          error[r][i] = code == 0 ? value : static_cast<float>(left);
          EXPECT_EQ(static_cast<long double>(error[r][i]), left) << "the difference is exact";
          sum += code;
        }
        average[i] = ReferenceAverage(static_cast<float>(sum * scale), total);
      }
      blocks[b].Learn(largest, less);
    }
    return average;
  }
};

// ---- sparse ----

// The values of a message as its code brings them: a run of a code has one scale.
Floats RoundedRun(const std::string& code, const Floats& run) {
  double least = FLT_MAX, most = 0;
  for (const float value : run) {
    least = std::min(least, std::fabs(double{value}));
    most = std::max(most, std::fabs(double{value}));
  }
  Floats rounded;
  if (code == "int2") {
    const auto power = [](double value, bool nearest) {
      const double below = std::ldexp(1, static_cast<int>(std::floor(std::log2(value))));
      const double chosen = nearest && value - below >= 2 * below - value ? 2 * below : below;
      return std::min(chosen, 0x1p127) < 0x1p-127 ? 0.0 : std::min(chosen, 0x1p127);
    };
    const double high = most == 0 ? 0 : power(most, true);
    double low = least == 0 ? 0 : power(least, false);
    if (low < high * 0x1p-20) low = 0;
    for (const float value : run) {
      const double size = std::fabs(double{value});
      const double nearer = high - size < size - low ? high : low;
      rounded.push_back(static_cast<float>(std::copysign(nearer, value)));
    }
    return rounded;
  }
  const int levels = code == "int8" ? 127 : 7, lowest = code == "int8" ? -133 : -129;
  int exponent = lowest;
  while (exponent < lowest + 255 && std::nearbyint(most * std::ldexp(1, -exponent)) > levels) {
    ++exponent;
  }
  for (const float value : run) {
    const double q =
        std::clamp<double>(std::nearbyint(value * std::ldexp(1, -exponent)), -levels, levels);
    const double sent = std::clamp<double>(q * std::ldexp(1, exponent), -FLT_MAX, FLT_MAX);
    rounded.push_back(static_cast<float>(sent == 0 ? 0.0 : sent));
  }
  return rounded;
}

Floats RoundedMessage(const std::string& code, const Floats& values) {
  if (code == "fp32") return values;
  Floats rounded;
  if (code == "bf16") {
    for (const float value : values) {
      const uint32_t low = RawBits(value) & 0xffffu, even = RawBits(value) >> 16 & 1;
      const uint32_t up = low > 0x8000u || (low == 0x8000u && even == 1) ? 1 : 0;
      rounded.push_back(std::bit_cast<float>(((RawBits(value) >> 16) + up) << 16));
    }
    return rounded;
  }
  const size_t length = code == "int8" ? 256 : 64;
  for (size_t at = 0; at < values.size(); at += length) {
    const size_t end = std::min(values.size(), at + length);
    const Floats run = RoundedRun(code, Floats(values.begin() + at, values.begin() + end));
    rounded.insert(rounded.end(), run.begin(), run.end());
  }
  return rounded;
}

// The first k of the selection order, in the order of their indices.
using ByIndex = std::map<uint32_t, float>;
ByIndex FirstOf(const ByIndex& from, size_t k) {
  std::vector<std::pair<uint32_t, float>> order(from.begin(), from.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::fabs(a.second) > std::fabs(b.second);
  });
  order.resize(std::min(k, order.size()));
  return ByIndex(order.begin(), order.end());
}

struct SparseReference {
  std::vector<Floats> residual;  // by rank

  Floats Step(const std::vector<Floats>& brought, const ReferenceCase& one) {
    const size_t n = brought[0].size(), world = brought.size();
    const auto k = std::max<size_t>(1, static_cast<size_t>(std::round(one.density * n)));
    const double multiple = std::clamp(0.01 / one.density, 1.0, static_cast<double>(world));
    const auto keep = std::min<size_t>(n, static_cast<size_t>(std::round(multiple * k)));
    const std::string code = one.codec.substr(one.codec.find('/') + 1);
    double total = 0;
    std::vector<ByIndex> sent(world);
    ByIndex sum;
    for (size_t r = 0; r < world; ++r) {
      total += one.weights[r];
      const auto weight = static_cast<float>(one.weights[r]);
      ByIndex chosen;
      for (uint32_t i = 0; i < n; ++i) {
        const float product = weight == 0 ? 0.0f : weight * brought[r][i];
        residual[r][i] += product;
        if (residual[r][i] != 0) chosen[i] = residual[r][i];
      }
      chosen = FirstOf(chosen, k);
      Floats values;
      for (const auto& [index, value] : chosen) values.push_back(value);
      values = RoundedMessage(code, values);
      size_t at = 0;
      for (const auto& [index, value] : chosen) {
        sent[r][index] = values[at++];
        const auto [there, first] = sum.emplace(index, sent[r][index]);
        if (!first) there->second += sent[r][index];
      }
    }
    const ByIndex result = one.merge == "union" ? sum : FirstOf(sum, keep);
    for (size_t r = 0; r < world; ++r) {
      for (const auto& [index, value] : sent[r]) {
        if (result.count(index) != 0 && value != 0) residual[r][index] -= value;
      }
    }
    Floats average(n, 0.0f);
    for (const auto& [index, value] : result) {
      average[index] = static_cast<float>(value / total);
    }
    return average;
  }
};

// ---- both ----

// by step and rank
std::vector<std::vector<ReferenceStep>> RunSessions(const ReferenceCase& one) {
  const int world = static_cast<int>(one.weights.size());
  std::vector<std::vector<ReferenceStep>> kept(kReferenceSteps, std::vector<ReferenceStep>(world));
  Job job{.world = world, .wire = one.wire, .reducer = one.reducer};
  job.options = [&](SessionOptions* options) {
    options->sparse_codec = one.codec;
    options->sparse_merge = one.merge;
  };
  RunJob(job, [&](Session& session, GatheringCoordinator&) {
    const int rank = session.rank();
    std::vector<Floats> data;
    std::vector<int> ids;
    data.reserve(one.elements.size());
    for (size_t t = 0; t < one.elements.size(); ++t) {
      data.emplace_back(one.elements[t]);
      Tensor tensor;
      tensor.spec = {"t" + std::to_string(t), one.elements[t], one.density > 0 ? "sparse" : "dense",
                     one.density > 0 ? one.density : 1};
      tensor.wire_reach = one.wire_reach;
      tensor.data = data.back().data();
      const StatusOr<int> id = session.Register(tensor);
      ASSERT_TRUE(id.ok()) << id.status();
      ids.push_back(*id);
    }
    for (int step = 0; step < kReferenceSteps; ++step) {
      ASSERT_TRUE(session.BeginStep(one.weights[rank]).ok());
      for (size_t t = 0; t < ids.size(); ++t) {
        std::ranges::copy(BroughtBy(rank, step, static_cast<int>(t), one.elements[t]),
                          data[t].begin());
        if (one.weights[rank] == 0) std::ranges::fill(data[t], NAN);
        ASSERT_TRUE(session.Ready(ids[t]).ok());
      }
      const StatusOr<StepResult> ended = session.FinishStep();
      ASSERT_TRUE(ended.ok()) << ended.status();
      ASSERT_FALSE(ended->skipped) << step;
      for (size_t t = 0; t < ids.size(); ++t) {
        kept[step][rank].average.push_back(data[t]);
        Floats& residual = kept[step][rank].residual.emplace_back(one.elements[t]);
        ASSERT_TRUE(session.Residual(ids[t], residual).ok());
      }
    }
    EXPECT_TRUE(session.Close("").ok());
  });
  return kept;
}

void ExpectTheBits(const Floats& is, const Floats& should, const std::string& what) {
  ASSERT_EQ(is.size(), should.size()) << what;
  for (size_t i = 0; i < is.size(); ++i) {
    ASSERT_EQ(RawBits(is[i]), RawBits(should[i]))
        << what << ", element " << i << ": " << is[i] << " instead of " << should[i];
  }
}

void ExpectAsInTheReference(const ReferenceCase& one) {
  const std::vector<std::vector<ReferenceStep>> kept = RunSessions(one);
  const size_t world = one.weights.size();
  for (size_t t = 0; t < one.elements.size(); ++t) {
    const size_t n = one.elements[t];
    CodedReference coded{std::vector<ReferenceBlock>((n + 63) / 64),
                         std::vector<Floats>(world, Floats(n))};
    SparseReference sparse{std::vector<Floats>(world, Floats(n))};
    for (int step = 0; step < kReferenceSteps; ++step) {
      std::vector<Floats> brought;
      for (size_t r = 0; r < world; ++r) {
        brought.push_back(BroughtBy(static_cast<int>(r), step, static_cast<int>(t), n));
      }
      const int levels = one.wire == "int8" ? 127 : 7;
      const int less =
          levels == 7 ? static_cast<int>(std::lround(-128 * std::log2(one.wire_reach))) : 0;
      const Floats average = one.density > 0 ? sparse.Step(brought, one)
                                             : coded.Step(brought, one.weights, levels, less);
      for (size_t r = 0; r < world; ++r) {
        const std::string what = (one.density > 0 ? one.codec + " " + one.merge : one.wire) +
                                 ", step " + std::to_string(step) + ", tensor " +
                                 std::to_string(t) + ", rank " + std::to_string(r);
        ASSERT_EQ(kept[step][r].average.size(), one.elements.size()) << what;
        ASSERT_NO_FATAL_FAILURE(
            ExpectTheBits(kept[step][r].average[t], average, what + ", average"));
        const Floats& residual = one.density > 0 ? sparse.residual[r] : coded.error[r];
        ASSERT_NO_FATAL_FAILURE(
            ExpectTheBits(kept[step][r].residual[t], residual, what + ", kept"));
      }
    }
  }
}

const std::vector<std::vector<double>> kReferenceWeights = {
    {1, 1}, {0.3, 2.5, 0.7}, {1, 0, 3, 0.1}, {1, 2, 3, 4, 7}};

TEST(Reference, CodesOfDenseSumsHaveTheBitsOfTheDocumentation) {
  for (const char* wire : {"int8", "int4"}) {
    for (const std::vector<double>& weights : kReferenceWeights) {
      for (const double wire_reach : {1.0, 0.5}) {
        ReferenceCase one{.wire = wire, .wire_reach = wire_reach};
        one.elements = {1, 777, 4096, 2049};
        one.weights = weights;
        ASSERT_NO_FATAL_FAILURE(ExpectAsInTheReference(one));
      }
    }
  }
}

TEST(Reference, SparseValuesHaveTheBitsOfTheDocumentation) {
  constexpr double kDensities[] = {1, 0.3, 0.004, 0.02};
  for (const char* value : {"fp32", "bf16", "int8", "int4", "int2"}) {
    for (const char* merge : {"gtopk", "union"}) {
      for (size_t w = 0; w < kReferenceWeights.size(); ++w) {
        ReferenceCase one{.merge = merge, .reducer = w % 2 == 0, .density = kDensities[w]};
        one.codec = std::string(w % 2 == 0 ? "block16/" : "rice/") + value;
        one.elements = {1234};  // by itself: the tensors of a group compete for its result
        one.weights = kReferenceWeights[w];
        ASSERT_NO_FATAL_FAILURE(ExpectAsInTheReference(one));
      }
    }
  }
}

}  // namespace
}  // namespace ringwood
