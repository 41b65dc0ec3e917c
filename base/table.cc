#include "base/table.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"

namespace ringwood {
namespace {

bool IsNumber(const std::string& cell) {
  return !cell.empty() &&
         std::all_of(cell.begin(), cell.end(), [](unsigned char c) { return std::isdigit(c); });
}

}  // namespace

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows[0].size());
  for (const auto& row : rows) {
    RW_CHECK(row.size() == widths.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (IsNumber(row[i]) ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace ringwood
