# What `ringwood --version` says. The commit is looked up in each build: one small file is compiled and the
# program linked when it is another one.
function(ringwood_build_facts program)
  set(commit ${CMAKE_BINARY_DIR}/commit.cc)
  add_custom_target(ringwood_commit BYPRODUCTS ${commit} VERBATIM
    COMMENT "Looking up the commit"
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${commit}
            -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake)
  target_sources(${program} PRIVATE ${commit})
  add_dependencies(${program} ringwood_commit)
  string(STRIP "${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS}" type)
  set(cuda)
  if(CMAKE_CUDA_COMPILER)
    string(REPLACE ";" " sm_" architectures "${RINGWOOD_CUDA_ARCHITECTURES}")
    set(cuda "${CMAKE_CUDA_COMPILER_VERSION} for sm_${architectures}")
  endif()
  target_compile_definitions(${program} PRIVATE "RINGWOOD_BUILD_TYPE=\"${type}\""
    "RINGWOOD_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\""
    "RINGWOOD_CUDA_VERSION=\"${cuda}\"")
endfunction()

# What a user gets: the SDK as one shared library that shows only its C symbols, and the program.
add_library(ringwood SHARED ${CMAKE_SOURCE_DIR}/cmake/empty.cc)
target_link_libraries(ringwood PRIVATE -Wl,--whole-archive ringwood_client_c -Wl,--no-whole-archive)
target_link_options(ringwood PRIVATE
  -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map -Wl,--no-undefined)
set_target_properties(ringwood PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map
  VERSION ${PROJECT_VERSION} SOVERSION 0)
add_executable(ringwood_program cli/main.cc)
set_target_properties(ringwood_program PROPERTIES OUTPUT_NAME ringwood)
target_link_libraries(ringwood_program PRIVATE ringwood_cli)
ringwood_build_facts(ringwood_program)
add_dependencies(cli_test ringwood_program)  # it drives the program from outside
