#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quoted.h"
#include "base/units.h"
#include "plan/predict/show.h"

namespace ringwood {
namespace {

constexpr double kLeft = 110;    // names of the planners, px
constexpr double kWidth = 1000;  // of the time axis
constexpr double kRight = 30;
constexpr double kTop = 48;
constexpr double kBar = 20;
constexpr double kRow = 30;

struct Canvas {
  double seconds = 1;  // at the right end
  std::string svg;
  double X(double t) const { return kLeft + kWidth * t / seconds; }
  void Text(double x, double y, const char* anchor, const std::string& text, const char* style) {
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>%s</text>\n", x,
                          y, anchor, style, EscapeXml(text));
  }
  void Bar(double from, double to, double y, double height, const char* fill,
           const std::string& tip) {
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" "
                          "stroke=\"white\" stroke-width=\"0.5\"><title>%s</title></rect>\n",
                          X(from), y, std::max(0.3, X(to) - X(from)), height, fill, EscapeXml(tip));
  }
};

const char* ColourOf(const std::string& route) {
  if (route == "tree") return "#4d9221";
  if (route == "reduce-scatter") return "#2b6cb0";
  if (route == "all-gather") return "#805ad5";
  return "#d9822b";
}

std::string LabelOf(const std::string& route) {
  if (route == "ring") return "dense (ring)";
  if (route == "tree") return "sparse (tree)";
  return route;
}

// A round step that gives 5 to 12 ticks.
double TickOf(double seconds) {
  const double power = std::pow(10, std::floor(std::log10(seconds / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (seconds / (power * factor) <= 12) return power * factor;
  }
  return power * 10;
}

void Axis(Canvas* canvas, double bottom) {
  const double tick = TickOf(canvas->seconds);
  for (int i = 0; i * tick <= canvas->seconds * 1.0001; ++i) {
    const double x = canvas->X(i * tick);
    absl::StrAppendFormat(
        &canvas->svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
        x, kTop - 6, x, bottom);
    canvas->Text(x, bottom + 14, "middle", i == 0 ? "0" : FormatSeconds(i * tick),
                 "font-size=\"11\" fill=\"#555\"");
  }
}

void Backward(Canvas* canvas, const std::vector<double>& ready, const PlanInput& input) {
  canvas->Text(kLeft - 8, kTop + 14, "end", "backward", "font-size=\"12\"");
  double before = 0;
  for (size_t t = 0; t < ready.size(); ++t) {
    if (ready[t] > before) {
      canvas->Bar(before, ready[t], kTop, kBar, t % 2 == 0 ? "#8da0b3" : "#b3c0cc",
                  absl::StrCat("backward ", input.tensors[t].name));
    }
    before = ready[t];
  }
}

// Messages that run beside another one (asc, two lanes) take the lower half of the row.
void Row(Canvas* canvas, const PlannedStep& step, double y) {
  canvas->Text(kLeft - 8, y + 14, "end", step.plan.planner, "font-size=\"12\"");
  double free[2] = {0, 0};
  bool beside = false;
  double latest = 0;
  for (const Group& group : step.plan.groups) {
    beside = beside || group.start_seconds < latest - 1e-12;
    latest = std::max(latest, group.end_seconds);
  }
  for (const Group& group : step.plan.groups) {
    const int slot = beside && group.start_seconds < free[0] - 1e-12 ? 1 : 0;
    free[slot] = std::max(free[slot], group.end_seconds);
    const double height = beside ? kBar / 2 : kBar;
    canvas->Bar(group.start_seconds, group.end_seconds, y + slot * height, height,
                ColourOf(group.route),
                absl::StrFormat("%s, %d tensors, %s to %s: %s", group.route, group.tensors.size(),
                                FormatSeconds(group.start_seconds),
                                FormatSeconds(group.end_seconds), group.reason));
  }
}

void Legend(Canvas* canvas, const std::vector<PlannedStep>& steps, double y) {
  double x = kLeft;
  for (const char* route : {"ring", "tree", "reduce-scatter", "all-gather"}) {
    bool used = false;
    for (const PlannedStep& step : steps) {
      for (const Group& group : step.plan.groups) used = used || group.route == route;
    }
    if (!used) continue;
    absl::StrAppendFormat(&canvas->svg,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n",
                          x, y - 10, ColourOf(route));
    canvas->Text(x + 17, y, "start", LabelOf(route), "font-size=\"12\"");
    x += 130;
  }
}

}  // namespace

std::string ToSvg(const std::vector<PlannedStep>& steps, const PlanInput& input,
                  const std::string& title) {
  const std::vector<double> ready =
      input.ready_seconds.empty() ? FixedProfile(input.tensors) : input.ready_seconds;
  const double backward = ready.empty() ? 0 : ready.back();
  Canvas canvas;
  canvas.seconds = std::max(backward, 1e-9);
  for (const PlannedStep& step : steps) {
    canvas.seconds = std::max(canvas.seconds, step.end_seconds);
  }
  const double bottom = kTop + kRow * static_cast<double>(steps.size() + 1);
  Axis(&canvas, bottom);
  Backward(&canvas, ready, input);
  for (size_t s = 0; s < steps.size(); ++s) {
    Row(&canvas, steps[s], kTop + kRow * static_cast<double>(s + 1));
  }
  absl::StrAppendFormat(&canvas.svg,
                        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#c53030\" "
                        "stroke-dasharray=\"4 3\"/>\n",
                        canvas.X(backward), kTop - 6, canvas.X(backward), bottom);
  Legend(&canvas, steps, bottom + 36);
  canvas.Text(kLeft, 22, "start", title + ": when each planner's messages travel",
              "font-size=\"15\" font-weight=\"bold\"");
  canvas.Text(kLeft, 38, "start",
              "a bar is a message; right of the dashed line it is exposed, not hidden by backward",
              "font-size=\"11\" fill=\"#555\"");
  canvas.Text(kLeft + kWidth, bottom + 36, "end", "time from the start of backward (linear scale)",
              "font-size=\"12\"");
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "font-family=\"sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s"
      "</svg>\n",
      kLeft + kWidth + kRight, bottom + 50, canvas.svg);
}

}  // namespace ringwood
