#include "measure/session_options.h"

namespace ringwood {

StatusOr<SessionOptions> SessionOptionsOf(const std::map<std::string, std::string>& environment) {
  return OptionsFromEnvironment([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace ringwood
