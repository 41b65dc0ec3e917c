#include "plan/model/model_profile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/files/whole_file.h"
#include "plan/model/cost.h"
#include "plan/model/csv.h"

namespace ringwood {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;
constexpr double kMostTableBytes = 0x1p62;  // of a message

StatusOr<std::string> ReadFile(const std::string& file) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(file, error);
  if (error) return NotFound(absl::StrCat(file, ": ", error.message()));
  if (bytes > kMaxFileBytes) {
    // Reported at the line at which such a file exceeds the limit of rows.
    return Invalid(absl::StrCat(file, ":", kMaxProfileRows + 2, ": the file has ", bytes,
                                " bytes; a profile has at most ", kMaxProfileRows, " rows"));
  }
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return Unavailable(absl::StrCat(file, ": it cannot be read"));
  return text.str();
}

std::string AboveMost(double seconds) {
  return absl::StrFormat("a time of %g s is above %g s", seconds, kMostSeconds);
}

Status Append(const CsvReader& csv, ProfiledTensor tensor, ModelProfile* profile) {
  if (tensor.ready_seconds < 0) return csv.Error("the ready time is negative");
  if (tensor.forward_seconds < 0 || tensor.selection_seconds < 0) {
    return csv.Error("a time is negative");
  }
  for (const double seconds :
       {tensor.ready_seconds, tensor.forward_seconds, tensor.selection_seconds}) {
    if (seconds > kMostSeconds) return csv.Error(AboveMost(seconds));
  }
  if (!profile->tensors.empty() && tensor.ready_seconds < profile->tensors.back().ready_seconds) {
    return csv.Error("the ready time falls; rows must be in backward order");
  }
  profile->tensors.push_back(std::move(tensor));
  return OkStatus();
}

Status ParseEspresso(CsvReader& csv, ModelProfile* profile) {
  profile->format = "espresso";
  while (true) {
    RW_ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) return OkStatus();
    ProfiledTensor tensor;
    RW_ASSIGN_OR_RETURN(tensor.name, csv.Text("tensor"));
    RW_ASSIGN_OR_RETURN(tensor.elements, csv.Count("numel", kMaxProfileElements));
    RW_ASSIGN_OR_RETURN(const double ready, csv.Number("ready_time_us"));
    tensor.ready_seconds = ready * 1e-6;
    RW_RETURN_IF_ERROR(Append(csv, std::move(tensor), profile));
  }
}

StatusOr<double> OptionalSeconds(const CsvReader& csv, const std::string& column) {
  if (!csv.Has(column)) return 0.0;
  return csv.Number(column);
}

Status ParseForward(const CsvReader& csv, ModelProfile* profile) {
  bool found = false;
  for (const std::string& comment : csv.comments()) {
    absl::string_view text = comment;
    if (!absl::ConsumePrefix(&text, "# forward_seconds=")) continue;
    if (std::exchange(found, true))
      return csv.Error("forward_seconds comes twice in the comments above it; keep one");
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, profile->forward_seconds);
    if (error != std::errc() || end != last ||
        !(profile->forward_seconds >= 0 && profile->forward_seconds <= kMostSeconds)) {
      return csv.Error("forward_seconds is not a time");
    }
  }
  return OkStatus();
}

Status ParseRingwood(CsvReader& csv, ModelProfile* profile) {
  profile->format = "ringwood";
  RW_RETURN_IF_ERROR(ParseForward(csv, profile));
  double forward = 0;  // of all layers so far
  while (true) {
    RW_ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) return OkStatus();
    ProfiledTensor tensor;
    RW_ASSIGN_OR_RETURN(tensor.name, csv.Text("name"));
    RW_ASSIGN_OR_RETURN(tensor.elements, csv.Count("elements", kMaxProfileElements));
    RW_ASSIGN_OR_RETURN(tensor.ready_seconds, csv.Number("ready_seconds"));
    RW_ASSIGN_OR_RETURN(tensor.forward_seconds, OptionalSeconds(csv, "forward_seconds"));
    RW_ASSIGN_OR_RETURN(tensor.selection_seconds, OptionalSeconds(csv, "selection_seconds"));
    if (csv.Has("element_bytes")) {
      RW_ASSIGN_OR_RETURN(const uint64_t bytes, csv.Count("element_bytes", 4));
      if (bytes != 2 && bytes != 4) return csv.Error("element_bytes is neither 2 nor 4");
      tensor.element_bytes = static_cast<uint32_t>(bytes);
    }
    forward += tensor.forward_seconds;
    if (forward > kMostSeconds) return csv.Error(AboveMost(forward));
    RW_RETURN_IF_ERROR(Append(csv, std::move(tensor), profile));
  }
}

// Forward order and layer times in the file; backward order and ready times in the profile.
// Parameters 2i and 2i+1 are weight and bias of layer i and carry the same layer time.
Status ParseBCaffe(CsvReader& csv, ModelProfile* profile) {
  profile->format = "b-caffe";
  std::vector<ProfiledTensor> layers;
  std::vector<double> backward;
  double whole = 0;  // of all layers so far
  while (true) {
    RW_ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    RW_ASSIGN_OR_RETURN(const uint64_t elements, csv.Count("numel_aligned", kMaxProfileElements));
    RW_ASSIGN_OR_RETURN(const double layer, csv.Number("layer_backward_us"));
    RW_ASSIGN_OR_RETURN(const double measured, csv.Number("comm_us"));
    RW_ASSIGN_OR_RETURN(const double merged, OptionalSeconds(csv, "merged_comm_us"));
    if (layer < 0 || measured < 0 || merged < 0) return csv.Error("a time is negative");
    if (csv.rows() % 2 == 1) whole += layer * 1e-6;
    for (const double seconds : {whole, measured * 1e-6, merged * 1e-6}) {
      if (seconds > kMostSeconds) return csv.Error(AboveMost(seconds));
    }
    if (csv.rows() % 2 == 1) {
      layers.push_back({.name = absl::StrCat("layer", layers.size())});
      backward.push_back(layer * 1e-6);
    } else if (layer * 1e-6 != backward.back()) {
      return csv.Error("a bias must carry the time of its weight's layer");
    }
    layers.back().elements += elements;
    layers.back().measured_seconds += measured * 1e-6;
    layers.back().measured_merged_seconds += merged * 1e-6;
  }
  double now = 0;
  for (size_t i = layers.size(); i-- > 0;) {
    now += backward[i];
    layers[i].ready_seconds = now;
    profile->tensors.push_back(std::move(layers[i]));
  }
  return OkStatus();
}

}  // namespace

StatusOr<ModelProfile> ParseModelProfile(const std::string& text, const std::string& file) {
  ModelProfile profile;
  profile.name = std::filesystem::path(file).stem().string();
  CsvReader csv(text, file);
  RW_RETURN_IF_ERROR(csv.ReadHeader());
  if (csv.Has("tensor") && csv.Has("numel") && csv.Has("ready_time_us")) {
    RW_RETURN_IF_ERROR(ParseEspresso(csv, &profile));
  } else if (csv.Has("numel_aligned") && csv.Has("layer_backward_us") && csv.Has("comm_us")) {
    RW_RETURN_IF_ERROR(ParseBCaffe(csv, &profile));
  } else if (csv.Has("name") && csv.Has("elements") && csv.Has("ready_seconds")) {
    RW_RETURN_IF_ERROR(ParseRingwood(csv, &profile));
  } else {
    return csv.Error(
        "columns are missing; a profile has tensor,numel,ready_time_us, or "
        "name,elements,ready_seconds, or numel_aligned,layer_backward_us,comm_us");
  }
  if (profile.tensors.empty()) return csv.Error("the profile has no tensors");
  return profile;
}

StatusOr<ModelProfile> ReadModelProfile(const std::string& file) {
  RW_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  return ParseModelProfile(text, file);
}

std::string FormatModelProfile(const ModelProfile& profile) {
  std::string text = absl::StrFormat("# forward_seconds=%.17g\n", profile.forward_seconds);
  absl::StrAppend(&text,
                  "name,elements,ready_seconds,forward_seconds,selection_seconds,element_bytes\n");
  for (const ProfiledTensor& tensor : profile.tensors) {
    std::string name = tensor.name;
    for (char& c : name) {
      if (c == ',' || c == '\n' || c == '\r') c = '_';  // the format has no quotes
    }
    if (!name.empty() && name[0] == '#') name[0] = '_';
    absl::StrAppendFormat(&text, "%s,%d,%.17g,%.17g,%.17g,%d\n", name, tensor.elements,
                          tensor.ready_seconds, tensor.forward_seconds, tensor.selection_seconds,
                          tensor.element_bytes);
  }
  return text;
}

Status WriteModelProfile(const ModelProfile& profile, const std::string& file) {
  return WriteWhole(file, FormatModelProfile(profile), 0666);
}

StatusOr<std::vector<std::pair<double, double>>> ReadCostTable(const std::string& file) {
  RW_ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  CsvReader csv(text, file);
  RW_RETURN_IF_ERROR(csv.ReadHeader());
  std::map<double, std::pair<double, int>> sums;
  while (true) {
    RW_ASSIGN_OR_RETURN(const bool more, csv.Next());
    if (!more) break;
    RW_ASSIGN_OR_RETURN(const double bytes, csv.Number("bytes"));
    RW_ASSIGN_OR_RETURN(const double latency, csv.Number("avg_latency_us"));
    if (bytes < 0 || latency < 0) return csv.Error("sizes and times are not negative");
    if (bytes != std::floor(bytes) || bytes > kMostTableBytes) {
      return csv.Error(absl::StrFormat("%g is not a size in bytes, at most 2^62", bytes));
    }
    if (latency * 1e-6 > kMostSeconds) {
      return csv.Error(absl::StrFormat("%g us is above %g s", latency, kMostSeconds));
    }
    auto& [sum, count] = sums[bytes];
    sum += latency * 1e-6;
    ++count;
  }
  std::vector<std::pair<double, double>> points;
  for (const auto& [bytes, sum] : sums) points.emplace_back(bytes, sum.first / sum.second);
  return points;
}

}  // namespace ringwood
