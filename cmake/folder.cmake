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

# One test binary a folder; CTest sees every TEST by name. Suites named …Long carry the label "long":
# `./dev test` leaves them out (ctest -LE long), `ctest -L long` runs them.
function(ringwood_tests name)
  file(GLOB tests CONFIGURE_DEPENDS tests/${name}/*_test.cc tests/${name}/*_fixture.cc)
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ringwood_${name} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE
      RINGWOOD_SOURCE_DIR="${CMAKE_SOURCE_DIR}" RINGWOOD_BINARY_DIR="${CMAKE_BINARY_DIR}")
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
