// Ringwood's version: it stands in CMakeLists.txt, project(), and everything else takes it from
// there.
#pragma once

namespace ringwood {

// "MAJOR.MINOR.PATCH"
const char* Version();

}  // namespace ringwood
