// The program's version; CMakeLists.txt's project() says the same (a test compares them).
#pragma once

namespace ringwood {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace ringwood
