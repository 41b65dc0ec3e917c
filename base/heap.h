// The heap of a process that takes and frees messages and chunks of a megabyte all the time.
#pragma once

namespace ringwood {

// Free memory stays with the process, up to 16 MB at the end of each of malloc's arenas, and blocks
// of up to 4 MB come from there. By default glibc gives megabytes back to the kernel and fetches
// them again for each chunk, and the kernel zeroes every page: about a fifth of a server's
// processor time for a checkpoint. For main, before it starts threads.
void KeepFreedMemory();

}  // namespace ringwood
