// Adopts processes that lost their parent (daemons, data loaders of a killed rank), so that they
// can be ended with the job.
#pragma once

#include <sys/types.h>

#include <set>

namespace ringwood {

class Orphans {
 public:
  Orphans();  // adopts from now on

  // Kills and reaps every child of this process, and those adopted meanwhile, for at most kSeconds.
  // Children from before the construction (a shell's, before it exec'ed us) are left alone.
  void End();

 private:
  static constexpr double kSeconds = 2;
  std::set<pid_t> spared_;
};

}  // namespace ringwood
