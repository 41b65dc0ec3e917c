#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ringwood {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "ringwood: %s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace ringwood
