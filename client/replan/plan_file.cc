#include "client/replan/plan_file.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_format.h"
#include "base/files/whole_file.h"
#include "plan/strategy/planner.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

constexpr uint32_t kFormat = 1;

std::string WordsOf(const TensorSpec& spec) {
  return absl::StrFormat("'%s' (%d elements as %s, route %s, density %g)", spec.name, spec.elements,
                         spec.element_bytes == 2 ? "bfloat16" : "float32", spec.route,
                         spec.density);
}

}  // namespace

v1::SavedPlan ToSave(const Plan& plan, const std::vector<TensorSpec>& table, int world,
                     int servers) {
  v1::SavedPlan saved;
  saved.set_format(kFormat);
  saved.set_world(static_cast<uint32_t>(world));
  saved.set_servers(static_cast<uint32_t>(servers));
  for (const TensorSpec& spec : table) *saved.add_tensors() = ToProto(spec);
  *saved.mutable_plan() = ToProto(plan);
  return saved;
}

StatusOr<Plan> PlanFor(const std::vector<TensorSpec>& table, const v1::SavedPlan& saved) {
  if (saved.format() != kFormat) {
    return Invalid(
        absl::StrFormat("a plan of format %d, this version reads %d", saved.format(), kFormat));
  }
  for (int t = 0; t < std::min(saved.tensors_size(), static_cast<int>(table.size())); ++t) {
    RW_ASSIGN_OR_RETURN(const TensorSpec spec, FromProto(saved.tensors(t)));
    if (spec == table[t]) continue;
    return Invalid(
        absl::StrFormat("the plan was made for other tensors: its tensor %d is %s, here it is %s",
                        t, WordsOf(spec), WordsOf(table[t])));
  }
  if (static_cast<size_t>(saved.tensors_size()) != table.size()) {
    return Invalid(absl::StrFormat("the plan was made for %d tensors, here are %d",
                                   saved.tensors_size(), table.size()));
  }
  StatusOr<Plan> plan = FromProto(saved.plan());
  // In a message it would be damage; a file is the user's, whom a restart does not help.
  if (plan.status().code() == StatusCode::kDataLoss) {
    return Invalid("the plan was changed after it was saved: " + Message(plan.status()));
  }
  if (plan.ok()) RW_RETURN_IF_ERROR(Validate(*plan, table));
  return plan;
}

StatusOr<v1::SavedPlan> ReadPlanFile(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) {
    return NotFound(
        absl::StrFormat("the plan %s: %s; --save-plan writes one", path, error.message()));
  }
  if (bytes > kMaxPlanBytes) return Invalid(absl::StrFormat("the plan %s: %d bytes", path, bytes));
  std::ifstream file(path);
  return ParsePlanFile(
      std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()), path);
}

StatusOr<v1::SavedPlan> ParsePlanFile(const std::string& text, const std::string& path) {
  v1::SavedPlan saved;
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, &saved);
  if (!parsed.ok()) {
    return Invalid(absl::StrFormat("the plan %s: %s", path, parsed.message().as_string()));
  }
  return saved;
}

Status WritePlanFile(const v1::SavedPlan& saved, const std::string& path) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string text;
  const auto printed = google::protobuf::util::MessageToJsonString(saved, &text, options);
  if (!printed.ok()) {
    return Internal(absl::StrFormat("the plan for %s: %s", path, printed.message().as_string()));
  }
  return Annotate(WriteWhole(path, text, 0666), "the plan");
}

}  // namespace ringwood
