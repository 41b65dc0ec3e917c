// Columns for people: as wide as their widest cell, text to the left, numbers to the right.
#pragma once

#include <string>
#include <vector>

namespace ringwood {

// The first row is the header. Every row has as many cells as the header.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace ringwood
