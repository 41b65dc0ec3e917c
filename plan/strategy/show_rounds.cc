#include "absl/strings/str_format.h"
#include "base/units.h"
#include "plan/strategy/rounds.h"

namespace ringwood {
namespace {

// The arguments of rw.LocalSteps.
std::string InPython(const RoundsChoice& choice, const RoundsInput& input) {
  std::string text = absl::StrFormat("rw.LocalSteps(model, optimizer, every=%d", choice.every);
  if (choice.density < 1) {
    absl::StrAppendFormat(&text, ", density=%g, codec=\"%s\", chunk=4096", choice.density,
                          choice.codec);
  } else if (choice.codec != "fp32") {
    absl::StrAppendFormat(&text, ", codec=\"%s\"", choice.codec);
  }
  if (input.fragments > 1) absl::StrAppendFormat(&text, ", fragments=%d", input.fragments);
  if (input.delay > 0) absl::StrAppendFormat(&text, ", delay=%d", input.delay);
  return text + ")";
}

}  // namespace

std::string ToTable(const std::vector<RoundsChoice>& choices, const RoundsInput& input) {
  std::string text = absl::StrFormat(
      "a step of %s, %d workers; wanted: %.1f %% of the time is training, exchanges every %d steps "
      "or oftener\n\n  %-10s %8s %6s %10s %10s %12s %13s %12s\n",
      FormatSeconds(StepSeconds(input.plan)), input.plan.world, 100 * input.utilisation,
      input.most_every, "codec", "density", "every", "exchange", "exposed", "utilisation",
      "bytes a step", "fewer bytes");
  for (const RoundsChoice& choice : choices) {
    absl::StrAppendFormat(&text, "%s %-10s %8.4g %6d %10s %10s %11.2f%% %13s %11.0fx\n",
                          choice.chosen ? "*" : " ", choice.codec, choice.density, choice.every,
                          FormatSeconds(choice.exchange_seconds),
                          FormatSeconds(choice.exposed_seconds), 100 * choice.utilisation,
                          FormatBytes(choice.bytes_a_step), choice.fewer_bytes);
  }
  for (const RoundsChoice& choice : choices) {
    if (!choice.chosen) continue;
    absl::StrAppendFormat(&text, "\n* %s\n", InPython(choice, input));
    if (!choice.reaches) {
      absl::StrAppendFormat(&text,
                            "  none reaches %.1f %%: it comes nearest. Allow more steps "
                            "(--most-every) or a delay (--delay)\n",
                            100 * input.utilisation);
    }
  }
  return text;
}

std::string ToJson(const std::vector<RoundsChoice>& choices, const RoundsInput& input) {
  std::string json =
      absl::StrFormat("{\"step_seconds\": %.17g, \"utilisation\": %.17g, \"choices\": [",
                      StepSeconds(input.plan), input.utilisation);
  const char* separator = "\n";
  for (const RoundsChoice& choice : choices) {
    absl::StrAppendFormat(
        &json,
        "%s  {\"codec\": \"%s\", \"density\": %.17g, \"every\": %d, \"reaches\": %s, "
        "\"chosen\": %s, \"exchange_seconds\": %.17g, \"exposed_seconds\": %.17g, "
        "\"utilisation\": %.17g, \"bytes_a_step\": %.17g, \"fewer_bytes\": %.17g}",
        separator, choice.codec, choice.density, choice.every, choice.reaches ? "true" : "false",
        choice.chosen ? "true" : "false", choice.exchange_seconds, choice.exposed_seconds,
        choice.utilisation, choice.bytes_a_step, choice.fewer_bytes);
    separator = ",\n";
  }
  return json + "]}\n";
}

}  // namespace ringwood
