#include "base/version.h"

namespace ringwood {

const char* Version() { return RINGWOOD_VERSION; }

}  // namespace ringwood
