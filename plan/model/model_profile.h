// A profile of a model: what one step computes, and when its gradients are ready.
//
// Files are untrusted input: every error names file and line. Three formats are told apart by the
// names of their columns (extra columns are ignored):
//   espresso  tensor,numel,ready_time_us
//             in backward order; microseconds after the first gradient
//   b-caffe   param_id_forward_order,numel_aligned,layer_backward_us,comm_us[,merged_comm_us]
//             in forward order; weight and bias of a layer are one tensor here, as they were sent
//   ringwood  name,elements,ready_seconds[,forward_seconds][,selection_seconds][,element_bytes],
//             and among the comments before the columns "# forward_seconds=F"; what
//             WriteModelProfile writes
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ringwood {

struct ProfiledTensor {
  std::string name;
  uint64_t elements = 0;
  double ready_seconds = 0;            // from the start of backward, never falling
  double forward_seconds = 0;          // of its layer; 0 where it was not measured
  double selection_seconds = 0;        // of its k entries; 0 where it was not measured
  double measured_seconds = 0;         // of its all-reduce where the log has it
  double measured_merged_seconds = 0;  // the same in a run with merging: booked on a group's end
  uint32_t element_bytes = 4;          // 4 (float32) or 2 (bfloat16)
  bool operator==(const ProfiledTensor&) const = default;
};

struct ModelProfile {
  std::string name;
  std::string format;                   // "espresso" | "b-caffe" | "ringwood"
  double forward_seconds = 0;           // 0 where the format does not have it
  std::vector<ProfiledTensor> tensors;  // in backward order
  bool operator==(const ModelProfile&) const = default;
};

constexpr uint64_t kMaxProfileRows = 1 << 20;                // far above any model
constexpr uint64_t kMaxProfileElements = uint64_t{1} << 40;  // of one tensor
constexpr uint64_t kMaxLineBytes = 1 << 16;

StatusOr<ModelProfile> ReadModelProfile(const std::string& file);

// `text` is the content of `file`, whose name only the errors use.
StatusOr<ModelProfile> ParseModelProfile(const std::string& text, const std::string& file);

// Doubles with 17 digits: reading it back gives the same value.
std::string FormatModelProfile(const ModelProfile& profile);
// Whole or not at all, as base/files/whole_file.h says.
Status WriteModelProfile(const ModelProfile& profile, const std::string& file);

// Two columns of numbers after a header, bytes and microseconds ("bytes,avg_latency_us"), as
// all-reduce benchmarks print them; repeated sizes are averaged. Returns (bytes, seconds) in
// increasing order.
StatusOr<std::vector<std::pair<double, double>>> ReadCostTable(const std::string& file);

}  // namespace ringwood
