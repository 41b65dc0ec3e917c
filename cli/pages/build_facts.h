// What this program was built of and from, for `ringwood --version` and `ringwood doctor`.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ringwood {

// What only the build itself knows.
struct Build {
  std::string commit;    // of the source tree; empty: not known
  std::string type;      // "Release", with the flags that were given
  std::string compiler;  // "GNU 12.2.0"
  std::string cuda;      // "13.0.88 for sm_90"; empty: built without
};

// Names and values, in the order to show them: "ringwood" and its version, "commit", …
std::vector<std::pair<std::string, std::string>> BuildFacts(const Build& build);

// "ringwood VERSION", then a line for each fact: its name, blanks, its value. No newline at the
// end.
std::string BuildText(const Build& build);

}  // namespace ringwood
