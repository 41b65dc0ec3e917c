// Comma-separated numbers with errors that name file and line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

// Walks over a table's rows. Lines end in \n or \r\n; empty lines and lines that begin with # are
// skipped; there are no quotes.
class CsvReader {
 public:
  CsvReader(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  // Reads the line of column names and keeps the comments before it. An error if there is none, or
  // more than kMaxComments.
  static constexpr size_t kMaxComments = 4096;
  Status ReadHeader();
  bool Has(const std::string& column) const { return Find(column) >= 0; }

  // Moves to the next row; false at the end. An error where the number of fields is not the
  // header's.
  StatusOr<bool> Next();

  // Fields of the present row. The names must be among the header's.
  StatusOr<std::string> Text(const std::string& column) const;
  StatusOr<double> Number(const std::string& column) const;                  // finite
  StatusOr<uint64_t> Count(const std::string& column, uint64_t most) const;  // 1..most

  // "FILE:LINE: problem" of the present line.
  Status Error(const std::string& problem) const;
  const std::vector<std::string>& comments() const { return comments_; }  // before the names
  uint64_t rows() const { return rows_; }

 private:
  int Find(const std::string& column) const;
  StatusOr<bool> Line(std::string* line);

  const std::string& text_;
  std::string file_;
  size_t at_ = 0;
  uint64_t line_ = 0;
  uint64_t rows_ = 0;
  std::vector<std::string> comments_;
  std::vector<std::string> header_;
  std::vector<std::string> fields_;
};

}  // namespace ringwood
