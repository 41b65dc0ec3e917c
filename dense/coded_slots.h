// Slots that travel as sums of codes (dense/lattice/codes.h), in any schedule: a node encodes its
// part of a slot once, when it first sends it or adds to what came, and every sum is exact. The
// packed sum lies in memory of the chunk until everything is sent and it is decoded into the
// output; or where it is kept for who will decode it.
#pragma once

#include <memory>

#include "dense/slots.h"

namespace ringwood {

std::unique_ptr<Slots> MakeCodedSlots(const Values& values);

}  // namespace ringwood
