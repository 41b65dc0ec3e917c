// One frame of `ringwood top`: a job's status as lines that fit a terminal. Pure.
#pragma once

#include <string>
#include <vector>

#include "ringwood/v1/control.pb.h"

namespace ringwood {

struct TerminalSize {
  int columns = 100;
  int rows = 40;
};

struct TopView {
  v1::StatusResponse status;  // the last one that was heard
  std::string trouble;        // why there is no newer one; empty: there is
};

// At most size.rows lines of at most size.columns characters each; with `color` in ANSI colors,
// which take no column. Members come before events where both do not fit.
std::vector<std::string> TopFrame(const TopView& view, TerminalSize size, bool color);

// The first `columns` characters of UTF-8 text.
std::string FirstColumns(const std::string& text, int columns);

}  // namespace ringwood
