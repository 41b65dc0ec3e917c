// What `ringwood doctor` prints: facts, what would be planned on them, findings, the verdict.
#pragma once

#include <string>
#include <vector>

#include "dense/hop_cost.h"
#include "doctor/facts.h"
#include "doctor/finding.h"

namespace ringwood {

struct DoctorReport {
  ClusterFacts facts;
  std::vector<Finding> findings;  // of these facts
};

// What dense tensors would cost: the slowest measured pair counts, since a ring waits for it. The
// defaults where nothing was measured.
HopCost CostOf(const ClusterFacts& facts);

// Lines on what a job here would do: data plane, schedules by size, and how to ask for a model.
std::vector<std::string> PlannedLines(const ClusterFacts& facts);

// "ready", "ready, with 2 warnings", "not ready: 1 error, 2 warnings".
std::string VerdictOf(const std::vector<Finding>& findings);

std::string ToText(const DoctorReport& report);  // for people
// {"verdict": …, "exit_code": …, "findings": [{"severity", "what", "where", "remedy", "passes"}],
// "hosts": […], "links": […], "planned": [lines]}
std::string ToJson(const DoctorReport& report);

}  // namespace ringwood
