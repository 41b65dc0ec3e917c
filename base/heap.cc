#include "base/heap.h"

#include <malloc.h>

namespace ringwood {
namespace {

constexpr int kKeptBytes = 16 << 20;
constexpr int kHeapBlockBytes = 4 << 20;  // larger ones are mapped, and unmapped when freed

}  // namespace

void KeepFreedMemory() {
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  ::mallopt(M_MMAP_THRESHOLD, kHeapBlockBytes);
}

}  // namespace ringwood
