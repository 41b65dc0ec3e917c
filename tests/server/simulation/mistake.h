// Deliberate mistakes of the modelled processes around Membership; each must be found.
#pragma once

#include <ostream>

namespace ringwood::simulation {

enum class Mistake {
  kNone,
  kNoFencing,         // a worker that joined again still votes and applies in its old epoch
  kNoVote,            // a worker applies what was exchanged without a commit
  kStepOnly,          // a worker goes by the number of its round, not by what the answer says of it
  kAnswerFirst,       // the coordinator goes on while its record is being written
  kForgets,           // a coordinator that is started again has the record before the newest
  kWeightFromMemory,  // who rolls a round forward does not know its weight
  kAbortFirst,        // a worker drops what it prepared before it joins again
  kForgedVote,        // a vote counts for the next worker too
  kNewcomerHides,     // a newcomer that receives its state does not say what it voted for
  kNewcomerHolds,     // and this one says that it has it
  kAnyoneIsMember,    // a process that was started again is taken for the one before
};

struct NamedMistake {
  Mistake mistake;
  const char* name;
};
inline void PrintTo(const NamedMistake& named, std::ostream* out) { *out << named.name; }

inline constexpr NamedMistake kMistakes[] = {
    {Mistake::kNoFencing, "NoFencing"},
    {Mistake::kNoVote, "NoVote"},
    {Mistake::kStepOnly, "StepOnly"},
    {Mistake::kAnswerFirst, "AnswerFirst"},
    {Mistake::kForgets, "Forgets"},
    {Mistake::kWeightFromMemory, "WeightFromMemory"},
    {Mistake::kAbortFirst, "AbortFirst"},
    {Mistake::kForgedVote, "ForgedVote"},
    {Mistake::kNewcomerHides, "NewcomerHides"},
    {Mistake::kNewcomerHolds, "NewcomerHolds"},
    {Mistake::kAnyoneIsMember, "AnyoneIsMember"},
};

}  // namespace ringwood::simulation
