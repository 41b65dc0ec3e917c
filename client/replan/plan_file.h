// A plan with the tensors that it was made for: as an item of checkpoints, and as the file of
// --save-plan and --freeze-plan (JSON of the message).
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

constexpr uint64_t kMaxPlanBytes = 64 << 20;  // far above the plan of any model

v1::SavedPlan ToSave(const Plan& plan, const std::vector<TensorSpec>& table, int world,
                     int servers);

// The plan, if it is one for `table`; otherwise the error names the first difference.
StatusOr<Plan> PlanFor(const std::vector<TensorSpec>& table, const v1::SavedPlan& saved);

// Errors name the file. Writing replaces it atomically, that which a link names.
StatusOr<v1::SavedPlan> ReadPlanFile(const std::string& path);
// `text` is the content of `path`, which only the errors use.
StatusOr<v1::SavedPlan> ParsePlanFile(const std::string& text, const std::string& path);
Status WritePlanFile(const v1::SavedPlan& saved, const std::string& path);

}  // namespace ringwood
