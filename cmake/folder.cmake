# ringwood_folder(ROOM [PARTS folders…] DEPENDS rooms…): one static library from ROOM/*.cc (client/c:
# ringwood_client_c) and from those of its folders that are parts of it. A room may hold headers only.
function(ringwood_folder room)
  cmake_parse_arguments(ARG "" "" "PARTS;DEPENDS" ${ARGN})
  string(REPLACE "/" "_" name ${room})
  string(REGEX REPLACE "/.*" "" folder ${room})
  file(GLOB sources CONFIGURE_DEPENDS ${room}/*.cc)
  foreach(part ${ARG_PARTS})
    file(GLOB more CONFIGURE_DEPENDS ${room}/${part}/*.cc)
    list(APPEND sources ${more})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(room STREQUAL "proto")
    ringwood_generate(generated)
    list(APPEND sources ${generated})
  endif()
  if(NOT sources)
    set(sources ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
  endif()
  ringwood_batches(sources ${name} ${sources})
  add_library(ringwood_${name} STATIC ${sources})
  target_include_directories(ringwood_${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/proto)
  foreach(dependency ${ARG_DEPENDS})
    string(REPLACE "/" "_" dependency ${dependency})
    target_link_libraries(ringwood_${name} PUBLIC ringwood_${dependency})
  endforeach()
  ringwood_cuda(${name} ${room})
  set_property(GLOBAL APPEND PROPERTY RINGWOOD_ROOMS_OF_${folder} ringwood_${name})
  set_property(GLOBAL APPEND PROPERTY RINGWOOD_FOLDERS ${folder})
endfunction()

# A room's files are compiled ten at a time, and so are a folder's tests: most of a compiler's time goes
# into headers, and ten files that include the same ones pay for them once. So names of one room, and of
# one folder's tests, differ even in anonymous namespaces. Highway includes its files once for each
# instruction set, protoc's share names: they are compiled alone. Unlike CMake's UNITY_BUILD the batches
# name files relative to the tree, so that clones in other places hit the compiler cache.
option(RINGWOOD_UNITY "Compile files of the product and of its tests ten at a time" ON)
function(ringwood_batches out label)
  set(batch)
  set(result)
  set(number 0)
  foreach(source ${ARGN})
    set(alone TRUE)
    if(RINGWOOD_UNITY AND source MATCHES "\\.cc$" AND NOT source MATCHES "\\.pb\\.cc$")
      file(STRINGS ${source} lines REGEX "foreach_target\\.h" LIMIT_COUNT 1)
      if(NOT lines)
        set(alone FALSE)
      endif()
    endif()
    if(alone)
      list(APPEND result ${source})
      continue()
    endif()
    file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${source})
    list(APPEND batch "#include \"${relative}\"\n")
    list(LENGTH batch length)
    if(length EQUAL 10)
      ringwood_batch(result ${label} ${number} "${batch}")
      set(batch)
      math(EXPR number "${number} + 1")
    endif()
  endforeach()
  if(batch)
    ringwood_batch(result ${label} ${number} "${batch}")
  endif()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

macro(ringwood_batch list label number lines)
  set(file ${CMAKE_BINARY_DIR}/batches/${label}_${number}.cc)
  string(REPLACE ";" "" text "${lines}")
  file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
  list(APPEND ${list} ${file})
endmacro()

# "paths.h" for the tests that read the tree or run the programs. It is the same in every clone, as what it
# declares is defined in a file of its own: all tests compile alike everywhere.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests/paths.h CONTENT
"#pragma once
extern const char* const RINGWOOD_SOURCE_DIR;
extern const char* const RINGWOOD_BINARY_DIR;
")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests/paths.cc CONTENT
"#include \"paths.h\"
const char* const RINGWOOD_SOURCE_DIR = \"${CMAKE_SOURCE_DIR}\";
const char* const RINGWOOD_BINARY_DIR = \"${CMAKE_BINARY_DIR}\";
")
add_library(ringwood_test_paths STATIC ${CMAKE_BINARY_DIR}/tests/paths.cc)
target_include_directories(ringwood_test_paths PUBLIC ${CMAKE_BINARY_DIR}/tests)

# With all rooms of a top-level folder F: one test binary F_test from tests/F/*_test.cc, one program
# from each bench/F/*_bench.cc. CTest sees every TEST by name. Suites named …Long carry the label
# "long": `./dev test` leaves them out (ctest -LE long), `ctest -L long` runs them.
function(ringwood_tests_and_benches)
  get_property(folders GLOBAL PROPERTY RINGWOOD_FOLDERS)
  list(REMOVE_DUPLICATES folders)
  foreach(folder ${folders})
    file(GLOB tests CONFIGURE_DEPENDS tests/${folder}/*_test.cc tests/${folder}/*_fixture.cc)
    get_property(rooms GLOBAL PROPERTY RINGWOOD_ROOMS_OF_${folder})
    if(tests)
      ringwood_test_binary(${folder}_test "${rooms}" "${tests}")
    endif()
    file(GLOB benches CONFIGURE_DEPENDS bench/${folder}/*_bench.cc)
    foreach(bench ${benches})
      get_filename_component(program ${bench} NAME_WE)
      add_executable(${program} ${bench})
      target_link_libraries(${program} PRIVATE ${rooms} benchmark::benchmark)
    endforeach()
  endforeach()
  add_executable(far_hosts bench/far_hosts.cc)  # where the others run with a network's delay
  target_include_directories(far_hosts PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(far_hosts PRIVATE CLI11::CLI11)
endfunction()

function(ringwood_test_binary binary rooms tests)
  string(REPLACE "_test" "" folder ${binary})
  ringwood_batches(tests ${binary} ${tests})
  add_executable(${binary} ${tests})
  target_link_libraries(${binary} PRIVATE ${rooms} ringwood_test_paths GTest::gmock GTest::gtest_main)
  # What tests compute is small; what they call was compiled with the preset's optimisation.
  target_compile_options(${binary} PRIVATE $<$<CONFIG:Release>:-O1>)
  include(GoogleTest)
  gtest_discover_tests(${binary} TEST_PREFIX ${folder}. TEST_FILTER -*Long.*
    DISCOVERY_TIMEOUT 300 DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600)
  gtest_discover_tests(${binary} TEST_PREFIX ${folder}. TEST_FILTER *Long.*
    TEST_LIST ${folder}_long_tests DISCOVERY_TIMEOUT 300 DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT 1200 LABELS long)
endfunction()

# From proto/ringwood/v1 (our own messages) and proto/etcd (etcd's, for the coordinator's store).
function(ringwood_generate out)
  file(GLOB protos CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/proto
    ${CMAKE_SOURCE_DIR}/proto/ringwood/v1/*.proto ${CMAKE_SOURCE_DIR}/proto/etcd/*.proto)
  set(sources ${protos})
  list(TRANSFORM sources PREPEND ${CMAKE_SOURCE_DIR}/proto/)
  set(generated)
  foreach(proto ${protos})
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    set(base ${CMAKE_BINARY_DIR}/proto/${stem})
    add_custom_command(
      OUTPUT ${base}.pb.cc ${base}.pb.h ${base}.grpc.pb.cc ${base}.grpc.pb.h
      COMMAND protobuf::protoc -I${CMAKE_SOURCE_DIR}/proto --cpp_out=${CMAKE_BINARY_DIR}/proto
              --grpc_out=${CMAKE_BINARY_DIR}/proto
              --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>
              ${CMAKE_SOURCE_DIR}/proto/${proto}
      DEPENDS ${sources})
    list(APPEND generated ${base}.pb.cc ${base}.grpc.pb.cc)
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/proto)
  set(${out} ${generated} PARENT_SCOPE)
endfunction()
