# ringwood_folder(NAME DEPENDS folders…): one static library ringwood_NAME from NAME/*.cc, one test
# binary NAME_test from tests/NAME/*_test.cc, one benchmark program from each bench/NAME/*_bench.cc.
function(ringwood_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${name}/*.cc ${name}/ucx/*.cc ${name}/grpc/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(name STREQUAL "proto")
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
    target_link_libraries(ringwood_${name} PUBLIC ringwood_${dependency})
  endforeach()
  ringwood_cuda(${name})
  ringwood_tests(${name})
  file(GLOB benches CONFIGURE_DEPENDS bench/${name}/*_bench.cc)
  foreach(bench ${benches})
    get_filename_component(program ${bench} NAME_WE)
    add_executable(${program} ${bench})
    target_link_libraries(${program} PRIVATE ringwood_${name} benchmark::benchmark)
  endforeach()
endfunction()

# A folder's files are compiled ten at a time: most of a compiler's time goes into headers, and ten
# files that include the same ones pay for them once. So names of one folder differ even in anonymous
# namespaces. Highway includes its files once for each instruction set, protoc's share names: they are
# compiled alone. Unlike CMake's UNITY_BUILD the batches name files relative to the tree, so that clones
# in other places hit the compiler cache.
option(RINGWOOD_UNITY "Compile the product's files ten at a time" ON)
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

# "paths.h" for the tests that read the tree or run the programs; the others compile alike in every clone.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests/paths.h CONTENT
"#pragma once
#define RINGWOOD_SOURCE_DIR \"${CMAKE_SOURCE_DIR}\"
#define RINGWOOD_BINARY_DIR \"${CMAKE_BINARY_DIR}\"
")

# One test binary a folder; CTest sees every TEST by name. Suites named …Long carry the label "long":
# `./dev test` leaves them out (ctest -LE long), `ctest -L long` runs them.
function(ringwood_tests name)
  file(GLOB tests CONFIGURE_DEPENDS tests/${name}/*_test.cc tests/${name}/*_fixture.cc)
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ringwood_${name} GTest::gmock GTest::gtest_main)
    target_include_directories(${name}_test PRIVATE ${CMAKE_BINARY_DIR}/tests)
    # What tests compute is small; what they call was compiled with the preset's optimisation.
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
    include(GoogleTest)
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}. TEST_FILTER -*Long.*
      DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300)
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}. TEST_FILTER *Long.*
      TEST_LIST ${name}_long_tests DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST
      PROPERTIES TIMEOUT 600 LABELS long)
  endif()
endfunction()

function(ringwood_generate out)
  file(GLOB protos CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/proto/ringwood/v1/*.proto)
  set(generated)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/proto)
  foreach(proto ${protos})
    get_filename_component(stem ${proto} NAME_WE)
    set(base ${CMAKE_BINARY_DIR}/proto/ringwood/v1/${stem})
    add_custom_command(
      OUTPUT ${base}.pb.cc ${base}.pb.h ${base}.grpc.pb.cc ${base}.grpc.pb.h
      COMMAND protobuf::protoc -I${CMAKE_SOURCE_DIR}/proto --cpp_out=${CMAKE_BINARY_DIR}/proto
              --grpc_out=${CMAKE_BINARY_DIR}/proto
              --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin> ${proto}
      DEPENDS ${protos})
    list(APPEND generated ${base}.pb.cc ${base}.grpc.pb.cc)
  endforeach()
  set(${out} ${generated} PARENT_SCOPE)
endfunction()
