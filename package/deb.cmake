# The configuration with which `cpack --config` makes the .deb of an installed tree:
#   RINGWOOD_INSTALLED=DIRECTORY RINGWOOD_CONTROL=DIRECTORY RINGWOOD_VERSION=0.1.0
#     cpack -G DEB --config package/deb.cmake -B WHERE
# The first directory holds usr/. The shared libraries that are not in it become dependencies by dpkg-shlibdeps. The
# second one holds further files of the package's control archive.
set(CPACK_PACKAGE_NAME ringwood)
set(CPACK_PACKAGE_VERSION $ENV{RINGWOOD_VERSION})
set(CPACK_PACKAGE_FILE_NAME ringwood)
set(CPACK_TOPLEVEL_TAG Linux)
set(CPACK_SYSTEM_NAME Linux)
set(CPACK_PACKAGE_VENDOR Ringwood)
set(CPACK_PACKAGE_CONTACT "Ringwood")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "gradient exchange for clusters whose network is slower than their GPUs")
set(CPACK_PACKAGE_DESCRIPTION "Dense gradients travel over rings, sparse ones over trees of reducers; a planner decides
which is which. Every training step commits on all workers or on none. With the launcher, the library for C and C++,
and the Python package.")
set(CPACK_INSTALLED_DIRECTORIES $ENV{RINGWOOD_INSTALLED} /)
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_SET_DESTDIR OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/prerm $ENV{RINGWOOD_CONTROL}/shlibs)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3 (>= 3.11), python3-numpy")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-torch, dataset-fashion-mnist")
