// What --help says of a flag and of a command, as data: for the reference page, the manual and the
// shells.
#pragma once

#include <string>
#include <vector>

namespace ringwood {

struct FlagText {
  std::string names;      // "-n, --num-proc"; a word by its position has no dashes
  std::string value;      // "SECONDS", "fp32|bf16"; empty: a switch
  std::string range;      // "0.01 to 3600"; empty: not limited
  std::string otherwise;  // the default; empty: none
  std::string variable;   // of the environment; empty: none
  bool required = false;
  bool alone = false;  // may stand without its value, which else follows as "--name=VALUE"
  std::string help;
};
struct CommandText {
  std::string name;  // "bench allreduce"
  std::string help;
  std::string footer;
  std::vector<FlagText> flags;
};

}  // namespace ringwood
