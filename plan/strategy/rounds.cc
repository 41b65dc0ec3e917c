#include "plan/strategy/rounds.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/str_format.h"
#include "plan/strategy/problem.h"

namespace ringwood {
namespace {

// How entries travel: up as they are coded, down their sums exactly (docs/sparse.md, Codecs).
struct Travel {
  const char* codec;
  double density;
  double up_bits;   // an entry
  double sum_bits;  // a sum, beside its index
};
constexpr Travel kTravels[] = {
    {"fp32", 1, 0, 0},
    {"bf16", 1, 0, 0},
    {"int8", 1, 0, 0},
    {"int4", 1, 0, 0},
    {"rice/int8", 1.0 / 16, 13.7, 8.8},
    {"rice/int8", 1.0 / 64, 15.6, 8.3},
    {"rice/int2", 1.0 / 64, 9.8, 3.8},
    {"rice/int2", 1.0 / 256, 11.6, 3.6},
};

Status Check(const RoundsInput& input) {
  if (!(input.utilisation > 0 && input.utilisation < 1)) {
    return Invalid(absl::StrFormat("a utilisation of %g: above 0 and below 1", input.utilisation));
  }
  if (input.fragments < 1 || input.delay < 0 || input.most_every < input.fragments) {
    return Invalid(absl::StrFormat(
        "%d fragments, a delay of %d steps, at most %d steps between exchanges: 1 or more, 0 or "
        "more, and at least as many as there are fragments",
        input.fragments, input.delay, input.most_every));
  }
  if (int64_t{input.delay} * input.fragments > input.most_every) {
    return Invalid(absl::StrFormat(
        "a delay of %d steps with %d fragments: one is exchanged at a time, which takes %d steps, "
        "and there are at most %d",
        input.delay, input.fragments, input.delay * input.fragments, input.most_every));
  }
  if (!(StepSeconds(input.plan) > 0)) {
    return Invalid("a step takes no time by the profile: give the forward time");
  }
  return Validate(input.plan);
}

double ElementsOf(const PlanInput& input) {
  double elements = 0;
  for (const TensorSpec& tensor : input.tensors) elements += static_cast<double>(tensor.elements);
  return elements;
}

// Bytes of the sums of all ranks' entries, each of which selects on its own; an index takes about
// its entropy.
double UnionBytes(const Travel& travel, double elements, int world) {
  const double share = 1 - std::pow(1 - travel.density, world);
  const double rest = 1 - share;
  const double index = -std::log2(share) - (rest > 0 ? rest * std::log2(rest) / share : 0);
  return share * elements * (index + travel.sum_bits) / 8;
}

// One round of `elements`; bytes are a rank's.
struct Round {
  double seconds, sent, received;
};

Round RoundOf(const Problem& problem, const Travel& travel, double elements) {
  const PlanInput& input = *problem.input;
  if (travel.density == 1) {
    const CodecCost codec = RingCodec(travel.codec, input.world);
    const double bytes = sizeof(float) * elements;
    const double coding = codec.encode_seconds_per_byte + codec.decode_seconds_per_byte;
    const double wire = 2.0 * (input.world - 1) / input.world * bytes * codec.wire_ratio;
    const double seconds = problem.ring.Seconds(bytes * codec.wire_ratio) +
                           problem.ring_delay.Of(bytes * codec.wire_ratio) + coding * bytes;
    return {seconds, wire, wire};
  }
  const double up = travel.density * elements * travel.up_bits / 8;
  const double down = UnionBytes(travel, elements, input.world);
  // The tree's cost is of a message that is as long on the way down as on the way up.
  const double seconds = problem.tree.Seconds((up + down) / 2) + problem.tree_delay +
                         input.selection.Seconds(elements);
  return {seconds, up, down};
}

// The fewest steps H with  H * step / (H * step + fragments * cost)  >=  utilisation.
int FewestSteps(const RoundsInput& input, double cost) {
  const double step = StepSeconds(input.plan), wanted = input.utilisation;
  const double steps = wanted / (1 - wanted) * input.fragments * cost / step;
  const double least = std::max<double>(std::max(1, input.delay), steps / input.fragments);
  const double rounds = std::min(std::ceil(least - 1e-9), 1e9 / input.fragments);
  return static_cast<int>(rounds) * input.fragments;
}

double Utilisation(const RoundsInput& input, int every, double cost) {
  const double training = every * StepSeconds(input.plan);
  return training / (training + input.fragments * cost);
}

RoundsChoice ChoiceOf(const RoundsInput& input, const Problem& problem, const Travel& travel) {
  const double elements = ElementsOf(input.plan);
  const double step = StepSeconds(input.plan);
  const Round round = RoundOf(problem, travel, elements / input.fragments);
  RoundsChoice choice;
  choice.codec = travel.codec;
  choice.density = travel.density;
  choice.exchange_seconds = round.seconds;
  choice.exposed_seconds = std::max(0.0, round.seconds - input.delay * step);
  const double cost =
      choice.exposed_seconds + input.outer_seconds_per_element * elements / input.fragments;
  choice.every = FewestSteps(input, cost);
  if (choice.every > input.most_every) {
    choice.reaches = false;
    choice.every = input.most_every / input.fragments * input.fragments;
  }
  choice.utilisation = Utilisation(input, choice.every, cost);
  choice.sent_bytes = round.sent;
  choice.received_bytes = round.received;
  choice.bytes_a_step = round.sent * input.fragments / choice.every;
  const double dense = RoundOf(problem, kTravels[0], elements).sent;
  if (choice.bytes_a_step > 0) choice.fewer_bytes = dense / choice.bytes_a_step;
  return choice;
}

}  // namespace

double StepSeconds(const PlanInput& input) {
  const std::vector<double> ready =
      input.ready_seconds.empty() ? FixedProfile(input.tensors) : input.ready_seconds;
  return input.forward_seconds + (ready.empty() ? 0 : ready.back());
}

StatusOr<std::vector<RoundsChoice>> PlanRounds(const RoundsInput& input) {
  RW_RETURN_IF_ERROR(Check(input));
  PlanInput plan = input.plan;
  plan.ring_codecs = {{.name = "fp32"}};  // what a codec saves is counted here
  const Problem problem = MakeProblem(plan);
  std::vector<RoundsChoice> choices;
  for (const Travel& travel : kTravels) choices.push_back(ChoiceOf(input, problem, travel));
  const auto before = [](const RoundsChoice& a, const RoundsChoice& b) {
    const auto rank = [](const RoundsChoice& choice) {
      return std::tuple(!choice.reaches, choice.every, choice.reaches ? 0 : -choice.utilisation);
    };
    return rank(a) < rank(b);
  };
  std::min_element(choices.begin(), choices.end(), before)->chosen = true;
  return choices;
}

}  // namespace ringwood
