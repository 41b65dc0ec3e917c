# CUDA is optional: variants are linked, never #ifdef'ed. A folder with cuda/*.cu and *.cc gets them
# when nvcc is found, and cuda/absent.cc otherwise; both define the same functions.
function(ringwood_cuda name room)
  set(absent ${CMAKE_SOURCE_DIR}/${room}/cuda/absent.cc)
  if(CMAKE_CUDA_COMPILER)
    file(GLOB sources CONFIGURE_DEPENDS ${room}/cuda/*.cu ${room}/cuda/*.cc)
    list(REMOVE_ITEM sources ${absent})
    if(NOT sources)
      return()
    endif()
    ringwood_batches(sources ${name}_cuda ${sources})
    target_sources(ringwood_${name} PRIVATE ${sources})
    set_target_properties(ringwood_${name} PROPERTIES CUDA_ARCHITECTURES "${RINGWOOD_CUDA_ARCHITECTURES}")
    target_link_libraries(ringwood_${name} PUBLIC CUDA::cudart_static)
    # --fmad=false: products and sums are rounded one by one, as on every CPU.
    # --expt-relaxed-constexpr: constexpr functions run on both sides.
    target_compile_options(ringwood_${name} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--expt-relaxed-constexpr>")
  elseif(EXISTS ${absent})
    target_sources(ringwood_${name} PRIVATE ${absent})
  endif()
endfunction()

# bench/gpu/*.cc: a program each, with the kernels in the .cu of its name, for bench/gpu/run. Built
# wherever CUDA is, so that they stay whole.
function(ringwood_cuda_benches)
  if(NOT CMAKE_CUDA_COMPILER)
    return()
  endif()
  file(GLOB benches CONFIGURE_DEPENDS bench/gpu/*.cc)
  foreach(bench ${benches})
    get_filename_component(program ${bench} NAME_WE)
    file(GLOB kernels CONFIGURE_DEPENDS bench/gpu/${program}.cu)
    add_executable(${program} ${bench} ${kernels})
    set_target_properties(${program} PROPERTIES
      CUDA_ARCHITECTURES "${RINGWOOD_CUDA_ARCHITECTURES}")
    target_link_libraries(${program} PRIVATE ringwood_sparse ringwood_dense)
  endforeach()
endfunction()

# CUDA_HOME or /usr/local/cuda, as every CUDA build looks for it.
option(RINGWOOD_CUDA "Use CUDA when nvcc is found" ON)
# Machine code of each, in one file a kernel's source; of the last also what drivers of later devices
# compile. cmake/cuda_seconds.py holds what it costs.
set(RINGWOOD_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING
  "Compute capabilities to build for, such as 80-real;90")
if(RINGWOOD_CUDA)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS $ENV{CUDA_HOME}/bin/nvcc)
    set(CMAKE_CUDA_COMPILER $ENV{CUDA_HOME}/bin/nvcc)
  elseif(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no C++20 for nvcc 13; kernels need none
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    message(STATUS "Ringwood: CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${RINGWOOD_CUDA_ARCHITECTURES}")
  else()
    message(STATUS "Ringwood: no nvcc found, building without CUDA")
  endif()
else()
  unset(CMAKE_CUDA_COMPILER CACHE)
  unset(CMAKE_CUDA_COMPILER)
endif()
