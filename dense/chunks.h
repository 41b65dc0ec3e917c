// Runs a collective: its schedule for every chunk of the tensor, a bounded number at once.
#pragma once

#include <functional>

#include "dense/run.h"

namespace ringwood {

// The values are of the whole tensor; their slots and the name's chunk are ignored. Answers with a
// digest over all slots of all chunks in order; same rules as RunChunk. `reached`, if any, is
// called with rising numbers of `elements`, the first of the output, that are final; before `done`,
// and only where chunks are ranges of the tensor.
void RunCollective(RunRequest request, std::function<void(StatusOr<uint64_t>)> done,
                   std::function<void(size_t elements)> reached = nullptr);

}  // namespace ringwood
