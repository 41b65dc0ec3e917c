// The terminal of `ringwood top`: a frame again and again, until q or a signal ends it.
#pragma once

#include "base/status.h"
#include "cli/watch/status_asker.h"
#include "launch/signals.h"

namespace ringwood {

// One frame on standard output, in colors where that is a terminal and `color` allows them.
Status PrintTop(StatusAsker* asker, bool color);

// Invalid where there is no terminal. Ends with one of `signals` but SIGWINCH, which draws anew,
// SIGTSTP, which gives the terminal back and stops, and SIGCONT, which takes it again; they are
// blocked in all threads.
Status RunTop(StatusAsker* asker, SignalDescriptor* signals, double every_seconds, bool color);

}  // namespace ringwood
