#include "cli/flags/arguments.h"

#include <algorithm>

namespace ringwood {

Arguments SplitArguments(const std::vector<std::string>& all) {
  Arguments arguments;
  const auto dashes = std::find(all.begin(), all.end(), "--");
  arguments.own.assign(all.begin(), dashes);
  if (dashes != all.end()) {
    arguments.dashes = true;
    arguments.trailing.assign(dashes + 1, all.end());
  }
  for (std::string& word : arguments.own) {
    if (word == "-np" || word.rfind("-np=", 0) == 0) word.replace(0, 3, "--num-proc");
  }
  return arguments;
}

}  // namespace ringwood
