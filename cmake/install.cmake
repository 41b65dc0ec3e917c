# What a user's project finds: `find_package(Ringwood)` gives Ringwood::ringwood, pkg-config gives
# "ringwood", PYTHONPATH=PREFIX/lib/ringwood/python gives the package, which finds the library in the
# lib folder above. All of them hold paths relative to where they lie, so the tree can move.
include(GNUInstallDirs)

# A file below share/ that the program prints when it is installed: it knows its flags.
function(ringwood_install_page folder name)
  string(REPLACE ";" " " arguments "${ARGN}")
  install(CODE "
    set(page \"${CMAKE_BINARY_DIR}/pages/${folder}/${name}\")
    execute_process(COMMAND \"$<TARGET_FILE:ringwood_program>\" ${arguments}
                    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
    file(WRITE \"\${page}\" \"\${text}\")
    file(INSTALL \"\${page}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/${folder}\")")
endfunction()

if(TARGET ringwood)
  target_include_directories(ringwood INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ringwood EXPORT RingwoodTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
  install(EXPORT RingwoodTargets NAMESPACE Ringwood:: FILE RingwoodConfig.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Ringwood)
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/RingwoodConfigVersion.cmake
    COMPATIBILITY SameMajorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/RingwoodConfigVersion.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Ringwood)
  file(RELATIVE_PATH RINGWOOD_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" RINGWOOD_PREFIX_FROM_PC ${RINGWOOD_PREFIX_FROM_PC})
  configure_file(cmake/ringwood.pc.in ${CMAKE_BINARY_DIR}/ringwood.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/ringwood.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(DIRECTORY python/ringwood DESTINATION ${CMAKE_INSTALL_LIBDIR}/ringwood/python
          FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed"
          PATTERN examples EXCLUDE PATTERN __pycache__ EXCLUDE)
  install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/ringwood/python/ringwood/examples
          FILES_MATCHING PATTERN "*.py" PATTERN libtorch EXCLUDE PATTERN grafana EXCLUDE
          PATTERN __pycache__ EXCLUDE)
endif()
if(TARGET ringwood_program)
  install(TARGETS ringwood_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  ringwood_install_page(man/man1 ringwood.1 reference --manual)
  ringwood_install_page(bash-completion/completions ringwood completion bash)
  ringwood_install_page(fish/vendor_completions.d ringwood.fish completion fish)
  ringwood_install_page(zsh/vendor-completions _ringwood completion zsh)
endif()
