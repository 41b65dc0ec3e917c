// What a replay prints.
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/median.h"
#include "base/units.h"
#include "measure/replay_trainer.h"

namespace ringwood {

std::string ToJson(const ReplayOptions& options, const ReplayResult& result) {
  nlohmann::ordered_json json;
  json["trace"] = result.profile;
  json["world"] = result.world;
  json["servers"] = options.servers;
  json["planner"] = result.planner;
  json["route"] = options.route;
  json["density"] = options.density;
  json["wire"] = result.wire;
  json["scale"] = options.scale;
  json["compute_s"] = result.compute_seconds;
  json["predicted_s"] = result.predicted_seconds;
  json["median_s"] = result.median_seconds;
  json["steps_s"] = result.step_seconds;
  json["busy_cores"] = Median(result.busy_cores);
  json["bytes_per_worker_per_step"] = result.bytes_per_worker_per_step;
  return json.dump();
}

std::string ToText(const ReplayResult& result) {
  std::string text = absl::StrFormat(
      "%s, %d workers, planner %s: %s a step (median of %d), predicted %s, compute alone %s, "
      "%s sent a worker a step\n",
      result.profile, result.world, result.planner, FormatSeconds(result.median_seconds),
      result.step_seconds.size(), FormatSeconds(result.predicted_seconds),
      FormatSeconds(result.compute_seconds),
      FormatBytes(static_cast<double>(result.bytes_per_worker_per_step)));
  for (const double seconds : result.step_seconds) text += "  " + FormatSeconds(seconds) + "\n";
  return text;
}

}  // namespace ringwood
