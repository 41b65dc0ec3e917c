#include "base/random.h"

#include <sys/random.h>

#include "base/check.h"

namespace ringwood {

uint64_t Unpredictable() {
  uint64_t value = 0;
  RW_CHECK(getrandom(&value, sizeof value, 0) == sizeof value);
  return value;
}

}  // namespace ringwood
