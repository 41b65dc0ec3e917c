// Processes that lost their parent (daemons, data loaders of a killed rank) come to us instead of
// to init, so that they can be ended with the job.
#pragma once

#include <sys/types.h>

#include <set>

namespace ringwood {

class Orphans {
 public:
  Orphans();  // adopts from now on

  // Kills and reaps every child of this process, and what comes to it meanwhile, at most for
  // kSeconds. Children from before the construction (a shell's, before it exec'ed us) are not ours.
  void End();

 private:
  static constexpr double kSeconds = 2;
  std::set<pid_t> spared_;
};

}  // namespace ringwood
