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
add_dependencies(cli_test ringwood_program)  # it drives the program from outside
