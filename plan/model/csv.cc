#include "plan/model/csv.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "plan/model/model_profile.h"

namespace ringwood {
namespace {

std::vector<std::string> SplitLine(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back().push_back(c);
    }
  }
  return fields;
}

}  // namespace

Status CsvReader::Error(const std::string& problem) const {
  return Invalid(absl::StrCat(file_, ":", line_, ": ", problem));
}

int CsvReader::Find(const std::string& column) const {
  for (size_t i = 0; i < header_.size(); ++i) {
    if (header_[i] == column) return static_cast<int>(i);
  }
  return -1;
}

StatusOr<bool> CsvReader::Line(std::string* line) {
  while (at_ < text_.size()) {
    size_t end = text_.find('\n', at_);
    if (end == std::string::npos) end = text_.size();
    ++line_;
    if (end - at_ > kMaxLineBytes) return Error("the line is longer than 65536 bytes");
    *line = text_.substr(at_, end - at_);
    at_ = end + 1;
    if (!line->empty() && line->back() == '\r') line->pop_back();
    if (line->empty()) continue;
    if (line->front() != '#') return true;
    if (!header_.empty()) continue;
    if (comments_.size() == kMaxComments) {
      return Error(absl::StrCat("more than ", kMaxComments, " comments before the column names"));
    }
    comments_.push_back(*line);
  }
  return false;
}

Status CsvReader::ReadHeader() {
  std::string line;
  RW_ASSIGN_OR_RETURN(const bool found, Line(&line));
  if (!found) {
    line_ = 1;
    return Error("the file is empty; a line of column names and one row a tensor are needed");
  }
  header_ = SplitLine(line);
  return OkStatus();
}

StatusOr<bool> CsvReader::Next() {
  std::string line;
  RW_ASSIGN_OR_RETURN(const bool found, Line(&line));
  if (!found) return false;
  if (++rows_ > kMaxProfileRows) return Error(absl::StrCat("more than ", kMaxProfileRows, " rows"));
  fields_ = SplitLine(line);
  if (fields_.size() != header_.size()) {
    return Error(absl::StrCat(fields_.size(), " fields under ", header_.size(), " columns"));
  }
  return true;
}

StatusOr<std::string> CsvReader::Text(const std::string& column) const {
  const int at = Find(column);
  if (at < 0) return Error(absl::StrCat("there is no column '", column, "'"));
  return fields_[at];
}

StatusOr<double> CsvReader::Number(const std::string& column) const {
  RW_ASSIGN_OR_RETURN(const std::string text, Text(column));
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return Error(absl::StrCat("column '", column, "': '", text, "' is not a finite number"));
  }
  return value;
}

StatusOr<uint64_t> CsvReader::Count(const std::string& column, uint64_t most) const {
  RW_ASSIGN_OR_RETURN(const std::string text, Text(column));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > most) {
    return Error(
        absl::StrCat("column '", column, "': '", text, "' is not a count from 1 to ", most));
  }
  return value;
}

}  // namespace ringwood
