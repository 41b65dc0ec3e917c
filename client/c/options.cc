// The C interface: the options of a session, before there is one.
#include "client/options/options.h"

#include <algorithm>
#include <cstdlib>
#include <list>

#include "base/net/machine_name.h"
#include "client/c/handle.h"
#include "client/options/c_options.h"

using ringwood::Invalid;
using ringwood::Status;
using ringwood::StatusOr;
using ringwood::c::Run;
using ringwood::c::Write;

namespace {

// A copy whose strings live as long as the process and never change: the caller has nothing that
// would free them. Equal options are one copy, so that asking again takes no memory.
const ringwood::SessionOptions* Keep(const ringwood::SessionOptions& found) {
  struct Kept {
    absl::Mutex mutex;
    std::list<ringwood::SessionOptions> options ABSL_GUARDED_BY(mutex);
  };
  static auto* const kept = new Kept();
  absl::MutexLock lock(&kept->mutex);
  const auto equal = std::find(kept->options.begin(), kept->options.end(), found);
  return equal != kept->options.end() ? &*equal : &kept->options.emplace_back(found);
}

bool HostIsNamed() {
  for (const char* variable : ringwood::OptionNamed("host").variables) {
    const char* value = variable == nullptr ? nullptr : std::getenv(variable);
    if (value != nullptr && *value != '\0') return true;
  }
  return false;
}

}  // namespace

extern "C" {

int ringwood_options_from_environment(ringwood_options* options, size_t size) {
  return Run([&]() -> Status {
    if (options == nullptr) return Invalid("ringwood_options is NULL");
    RW_ASSIGN_OR_RETURN(
        ringwood::SessionOptions found,
        ringwood::OptionsFromEnvironment([](const char* name) { return std::getenv(name); }));
    // Of ranks that nobody has told where they are: hosts of one name would share memory.
    if (!HostIsNamed()) found.host = ringwood::MachineName();
    const ringwood_options value = ringwood::ToC(*Keep(found));
    options->size = size;
    return Write(value, options, "ringwood_options");
  });
}

int ringwood_describe_option(size_t index, ringwood_option* option) {
  return Run([&]() -> Status {
    if (option == nullptr) return Invalid("ringwood_option is NULL");
    if (index >= ringwood::OptionTable().size())
      return ringwood::NotFound("there are no more options");
    return Write(ringwood::Describe(ringwood::OptionTable()[index]), option, "ringwood_option");
  });
}

}  // extern "C"
