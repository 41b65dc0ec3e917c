# Every package the build needs; ./dev installs them. Protobuf in module mode comes before gRPC.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(ucx CONFIG REQUIRED)
find_package(RocksDB CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(Boost CONFIG REQUIRED)  # Beast and Asio: headers alone
find_package(nlohmann_json CONFIG REQUIRED)
find_package(GTest CONFIG REQUIRED)
find_package(benchmark CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
# The text format only; by its CMake package it would ask for libcurl and zlib too.
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)

# Where xxHash was built with it, its choice of AVX2 or AVX-512 at run time: several times SSE2's rate.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::xxhash)
check_cxx_source_compiles("#include <xxh_x86dispatch.h>
  int main() { return static_cast<int>(XXH3_64bits_withSeed(\"\", 0, 0)); }" RINGWOOD_XXHASH_DISPATCH)
unset(CMAKE_REQUIRED_LIBRARIES)
if(RINGWOOD_XXHASH_DISPATCH)
  set(RINGWOOD_XXHASH "<xxh_x86dispatch.h>")
else()
  set(RINGWOOD_XXHASH "<xxhash.h>")
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
