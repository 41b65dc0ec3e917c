// Decides from what the next epoch of an elastic job starts, from what those who joined again have.
// Pure. Checked as a model in tests/model/commit.pml.
//
// An update is named by (epoch, round), never by the round alone. Of the last decided epoch L:
//
//   a commit of L needs the votes of all its members, and whoever joins again votes no more. So one
//   member that did not prepare round r + 1 proves that it was never committed; where all who came
//   back prepared it nobody can tell, and all can apply it.
//
//   somebody was active in L    m = the newest round of L that anybody applied.
//     all survivors prepared m + 1, alike        base = (L, m + 1): rolled forward
//     else                                       base = (L, m): m + 1 is exchanged again
//   nobody was, but a member of L is here        nothing of L was committed: base = L's base
//   else, or nobody has the base                 a checkpoint: a declared rollback
//
// A base keeps its first name: when no round of L was committed, L's base is the base again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringwood/v1/control.pb.h"
#include "ringwood/v1/state.pb.h"

namespace ringwood {

// A worker that has joined, as far as the decision needs it.
struct Returned {
  bool survivor = false;         // a member of the last epoch: same slot, same process
  std::optional<v1::Held> held;  // none: a new process
};

struct Recovery {
  bool from_members = false;  // else from a checkpoint: nobody has what is needed
  uint64_t base_epoch = 0;    // from_members: the update that all start from
  uint64_t base_step = 0;
  std::vector<size_t> holders;  // of `workers`: they have the base, or apply it. Never empty
  std::string why;              // for the log
};

// `last`: the newest record on disk. `workers`: all that will be in the next epoch; each of them
// has stopped work in its last one.
Recovery Recover(const v1::EpochRecord& last, const std::vector<Returned>& workers);

}  // namespace ringwood
