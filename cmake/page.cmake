# The status page as a string of the program: server/status/page.html, whole.
set(page ${CMAKE_SOURCE_DIR}/server/status/page.html)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
file(READ ${page} RINGWOOD_PAGE)
configure_file(${CMAKE_SOURCE_DIR}/server/status/page.cc.in ${CMAKE_BINARY_DIR}/page/page.cc @ONLY)
target_sources(ringwood_server_status PRIVATE ${CMAKE_BINARY_DIR}/page/page.cc)
