// The papers' numbers: what their models predict against what their logs measured.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "paths.h"
#include "plan/model/fit.h"
#include "plan/model/model_profile.h"
#include "plan/predict/show.h"
#include "plan/strategy/profile_input.h"

namespace ringwood {
namespace {

std::string PaperData(const std::string& file) {
  return std::string(RINGWOOD_SOURCE_DIR) + "/data/" + file;
}

nlohmann::json Json(const std::string& file) {
  std::ifstream in(PaperData(file));
  return nlohmann::json::parse(in);
}

ModelProfile GoogLeNet(const std::string& run) {
  return *ReadModelProfile(PaperData(absl::StrCat("bcaffe_googlenet/", run, ".csv")));
}

std::vector<std::pair<double, double>> SamplesOf(const ModelProfile& profile, int parity) {
  std::vector<std::pair<double, double>> samples;
  for (size_t t = 0; t < profile.tensors.size(); ++t) {
    if (parity >= 0 && t % 2 != static_cast<size_t>(parity)) continue;
    samples.emplace_back(4.0 * static_cast<double>(profile.tensors[t].elements),
                         profile.tensors[t].measured_seconds);
  }
  return samples;
}

// Each layer is predicted by a fit that has not seen it: even layers from odd ones and back.
TEST(Papers, GoogLeNetsMeasuredCommunicationIsPredictedWithinATenth) {
  for (const auto& [nodes, run] : std::vector<std::pair<int, std::string>>{
           {2, "tmp2comm"}, {4, "tmp4comm"}, {8, "tmp8comm"}, {8, "tmp8ocomm"}}) {
    const ModelProfile profile = GoogLeNet(run);
    double predicted = 0;
    double measured = 0;
    for (const int parity : {0, 1}) {
      const AffineFit fit = *FitLeastSquares(SamplesOf(profile, 1 - parity));
      for (const auto& [bytes, seconds] : SamplesOf(profile, parity)) {
        predicted += fit.cost().Seconds(bytes);
        measured += seconds;
      }
    }
    const auto table = ReadCostTable(
        PaperData(absl::StrCat("bcaffe_googlenet/osu_allreduce_", nodes, "nodes.csv")));
    const Cost idle = FitRobust(*table)->cost();
    double benchmark = 0;
    for (const auto& [bytes, seconds] : SamplesOf(profile, -1)) benchmark += idle.Seconds(bytes);
    std::printf(
        "GoogLeNet %s, %d nodes: measured %.1f ms, predicted %.1f ms (%+.1f %%); from the "
        "idle network's benchmark %.1f ms (%+.1f %%)\n",
        run.c_str(), nodes, 1e3 * measured, 1e3 * predicted, 100 * (predicted / measured - 1),
        1e3 * benchmark, 100 * (benchmark / measured - 1));
    EXPECT_NEAR(predicted / measured, 1, 0.10) << run;
  }
}

TEST(Papers, TheMergedRunIsPredictedFromTheUnmergedOne) {
  const ModelProfile profile = GoogLeNet("tmp8ocomm");
  const AffineFit fit = *FitLeastSquares(SamplesOf(GoogLeNet("tmp8comm"), -1));
  double bytes = 0;
  double messages = 0;
  double measured = 0;
  for (const ProfiledTensor& tensor : profile.tensors) {
    bytes += 4.0 * static_cast<double>(tensor.elements);
    messages += tensor.measured_merged_seconds > 0;
    measured += tensor.measured_merged_seconds;
  }
  const double predicted = messages * fit.startup_seconds + bytes * fit.seconds_per_byte;
  std::printf(
      "GoogLeNet merged, 8 nodes: %.0f messages, measured %.1f ms, predicted %.1f ms "
      "(%+.1f %%)\n",
      messages, 1e3 * measured, 1e3 * predicted, 100 * (predicted / measured - 1));
  EXPECT_NEAR(predicted / measured, 1, 0.10);
}

TEST(Papers, MgWfbpsPublishedSpeedUpsAreNearAtEightNodes) {
  const auto published =
      Json("published_results.json")["mgwfbp_infocom2019_8node_K80_10GbE"]["GoogLeNet_b64"];
  const ModelProfile profile = GoogLeNet("tmp8comm");
  PlanInput input = InputOf(profile, 1);
  input.world = 8;
  input.ring_cost = FitLeastSquares(SamplesOf(profile, -1))->cost();
  const double compute = 64 / published["wfbp"][0].get<double>();
  input.forward_seconds = compute - profile.tensors.back().ready_seconds;
  const double mg = PlanStep("mgwfbp", input)->iteration_seconds;
  for (const auto& [planner, key] : std::vector<std::pair<std::string, std::string>>{
           {"wfbp", "wfbp"}, {"single", "synceasgd"}}) {
    const double ours = PlanStep(planner, input)->iteration_seconds / mg;
    const double theirs = published["mgwfbp"][3].get<double>() / published[key][3].get<double>();
    std::printf("MG-WFBP over %s, GoogLeNet, 8 nodes: published %.3f, model %.3f (%+.1f %%)\n",
                planner.c_str(), theirs, ours, 100 * (ours / theirs - 1));
    EXPECT_GT(ours, 1.0);
    EXPECT_NEAR(ours / theirs, 1, 0.15);
  }
  std::printf("iteration: mgwfbp %.0f ms (published %.0f ms)\n", 1e3 * mg,
              1e3 * 8 * 64 / published["mgwfbp"][3].get<double>());
}

TEST(Papers, ExactIsNeverWorseOnAnyTraceAndNetwork) {
  const auto networks = Json("alpha_beta.json")["mgwfbp_dense_allreduce"];
  for (const char* model :
       {"vgg16", "resnet50", "resnet101", "gpt2", "bert", "bert_large", "LSTM", "ugatit", "ncf"}) {
    PlanInput input =
        InputOf(*ReadModelProfile(PaperData(absl::StrCat("espresso/", model, ".csv"))), 1);
    for (const char* network : {"56GbIB", "10GbE"}) {
      for (const auto& [workers, ab] : networks[network].items()) {
        input.world = std::stoi(workers);
        input.ring_cost = Cost::Affine(ab[0].get<double>(), ab[1].get<double>());
        const double exact = PlanStep("exact", input)->end_seconds;
        for (const char* other : {"wfbp", "single", "fixed", "mgwfbp", "oasr"}) {
          EXPECT_LE(exact, PlanStep(other, input)->end_seconds * (1 + 1e-12))
              << model << " " << other << " " << network << " " << workers;
        }
        EXPECT_LE(PlanStep("hybrid", input)->iteration_seconds, exact * (1 + 1e-12));
      }
    }
  }
}

}  // namespace
}  // namespace ringwood
