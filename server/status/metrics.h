// A job's status for Prometheus: one table of metrics, each with its name, type, help and the
// function that reads its values off the status. Pure.
#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ringwood/v1/control.pb.h"

namespace ringwood {

struct MetricValue {
  std::vector<std::pair<std::string, std::string>> labels;  // besides `job`
  double value = 0;
};

struct Metric {
  const char* name;
  prometheus::MetricType type;  // a counter or a gauge
  const char* labels;           // besides `job`: "slot, role, lane"; "" for none
  const char* help;
  std::vector<MetricValue> (*values)(const v1::StatusResponse&);
};

// All of them, in the order in which they are served.
std::span<const Metric> Metrics();

// The Prometheus text format 0.0.4; of one job, or of all jobs of a deployment, which have names.
std::string MetricsText(const v1::StatusResponse& status);
std::string MetricsText(std::span<const v1::StatusResponse> jobs);

// The table of docs/metrics.md.
std::string MetricsTable();

}  // namespace ringwood
