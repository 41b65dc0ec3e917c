// The command line before the parser sees it. Pure.
#pragma once

#include <string>
#include <vector>

namespace ringwood {

struct Arguments {
  std::vector<std::string> own;       // for the parser, without the program's name
  std::vector<std::string> trailing;  // after the first "--"
  bool dashes = false;                // there was one
};

// Splits at "--" and spells "-np", which MPI users write and no parser takes, "--num-proc".
Arguments SplitArguments(const std::vector<std::string>& all);

}  // namespace ringwood
