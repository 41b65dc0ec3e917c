#include "base/resident.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace ringwood {

ResidentMemory ReadResidentMemory() {
  ResidentMemory memory;
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    char text[128] = {};
    uint64_t pages = 0;
    if (::read(file, text, sizeof(text) - 1) > 0 &&
        std::sscanf(text, "%*u %" SCNu64, &pages) == 1) {
      memory.bytes = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    }
    ::close(file);
  }
  rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    memory.peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  }
  memory.peak_bytes = std::max(memory.peak_bytes, memory.bytes);  // the two are not of one moment
  return memory;
}

}  // namespace ringwood
