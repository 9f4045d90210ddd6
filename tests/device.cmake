# The CUDA backend's host code and kernel bodies on the CPU: every row of test_ops, no GPU needed. The
# linker's --wrap puts the device "host" among the backends (device_host.c).
include(${CMAKE_CURRENT_LIST_DIR}/comm.cmake)           # vlt_ranks
set(device_sources device_host.c ../common/cuda/walk.c ../common/cuda/elem.c
    ../common/cuda/rows.c ../common/cuda/video.c ../common/cuda/grid.c)
if(NOT VLT_CUDA)                       # there the library has these files, and a GPU's memory
  vlt_test(test_device SOURCES test_ops.c ops_check.c ops_ref.c ${device_sources} LIBS vlt_common m)
  set_property(TEST test_device APPEND PROPERTY ENVIRONMENT VLT_TEST=test_other_backends)
  vlt_test(test_row SOURCES test_row.c ${device_sources} LIBS vlt_common m)
  vlt_test(test_train_device SOURCES test_train_device.c train_run.c train_dataset.c
           ${device_sources} LIBS vlt_train)
  vlt_test(test_beside SOURCES test_beside.c engine_model.c ${device_sources} LIBS vlt_common m)
  # The goldens, as on a GPU.
  vlt_test(cogvideox_device SOURCES test_cogvideox.c cogvideox_model.c golden.c ${device_sources}
           LIBS vlt_train)
  vlt_test(cogvideox_lora_device SOURCES test_cogvideox_lora.c cogvideox_model.c golden.c
           ${device_sources} LIBS vlt_train)
  vlt_test(t5_device SOURCES test_t5.c t5_model.c golden.c ${device_sources} LIBS vlt_precompute m)
  vlt_test(vae_device SOURCES test_vae_cogvideox.c golden.c ${device_sources} LIBS vlt_precompute m)
  set(goldens cogvideox_device cogvideox_lora_device)
  if(VLT_FFMPEG)
    list(APPEND goldens t5_device vae_device)
  endif()
  foreach(test ${goldens})
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT VLT_DEVICE=host)
  endforeach()
  vlt_test(test_replay SOURCES test_replay.c engine_model.c ${device_sources} LIBS vlt_common m)

  # Several ranks on it (links_host.h): the comm of devices, and vtrain's own tests of ranks.
  vlt_test(test_comm_device SOURCES test_comm_device.c links_host.c ${device_sources} LIBS vlt_comm
           ARGS 1)
  foreach(n 2 3 4)
    vlt_ranks(comm_device_${n} RANKS ${n} COMMAND $<TARGET_FILE:test_comm_device> ${n})
  endforeach()
  add_executable(vtrain_host ../train/main.c links_host.c ${device_sources})
  set_target_properties(vtrain_host PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(vtrain_host PRIVATE vlt_train)
  add_test(NAME train_ranks_device COMMAND test_train_ranks)
  set_tests_properties(train_ranks_device PROPERTIES LABELS ranks TIMEOUT 900 SKIP_RETURN_CODE 77
    ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR};VLT_SOURCE=${CMAKE_SOURCE_DIR};VLT_MPI=${VLT_MPI_FOUND};VLT_PRELOAD=${VLT_PRELOAD};VLT_PROGRAM=tests/vtrain_host;VLT_DEVICE=host")
  set(programs vtrain_host)
  if(VLT_FFMPEG)
    list(APPEND programs vprep_host)
    add_executable(vprep_host ../precompute/vprep/main.c ${device_sources})
    set_target_properties(vprep_host PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(vprep_host PRIVATE vlt_precompute)
    add_test(NAME vprep_device COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/vprep_device.sh)
    set_tests_properties(vprep_device PROPERTIES LABELS ranks TIMEOUT 600 SKIP_RETURN_CODE 77
      ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR};VLT_SOURCE=${CMAKE_SOURCE_DIR};VLT_MPI=${VLT_MPI_FOUND};VLT_PRELOAD=${VLT_PRELOAD}")
  endif()
  foreach(test test_device test_row test_train_device test_beside test_replay test_comm_device
          ${programs} ${goldens})
    target_link_options(${test} PRIVATE LINKER:--wrap=vt_backends,--wrap=vt_backend_open)
  endforeach()
endif()
vlt_test(test_layout SOURCES test_layout.c ../common/cuda/layout.c LIBS vlt_common m)

if(VLT_CUDA)
  # Not linked to CUDA: the test is its runtime.
  vlt_test(test_transfer SOURCES test_transfer.c ../common/cuda/transfer.c ../common/base/err.c)
  target_include_directories(test_transfer PRIVATE ${CUDAToolkit_INCLUDE_DIRS})

  # Plans for a described GPU (ctest -L plan). The driver's stand-in lies in a folder of its own that
  # only this test is told about.
  find_library(VLT_CUDA_STUB cuda PATHS ${CUDAToolkit_LIBRARY_DIR}/stubs NO_DEFAULT_PATH)
  if(VLT_CUDA_STUB)
    set(driver ${CMAKE_BINARY_DIR}/tests/plan_driver)
    file(MAKE_DIRECTORY ${driver})
    add_custom_command(OUTPUT ${driver}/libcuda.so.1
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/plan_driver.sh ${VLT_CUDA_STUB} > ${driver}/driver.c
      COMMAND ${CMAKE_C_COMPILER} -shared -fPIC -w -Wl,-soname,libcuda.so.1
              -o ${driver}/libcuda.so.1 ${driver}/driver.c
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/plan_driver.sh VERBATIM)
    add_custom_target(plan_driver DEPENDS ${driver}/libcuda.so.1)
    vlt_test(test_plans SOURCES test_plans.c LIBS vlt_common LABELS plan)
    add_dependencies(test_plans plan_driver)
    set_property(TEST test_plans APPEND PROPERTY ENVIRONMENT "LD_LIBRARY_PATH=${driver}")
  endif()

  # On a GPU (ctest -L gpu): skipped, and said so, where there is none.
  add_test(NAME gpu_ops COMMAND test_ops)
  set_tests_properties(gpu_ops PROPERTIES LABELS gpu TIMEOUT 600 SKIP_REGULAR_EXPRESSION SKIPPED
    ENVIRONMENT VLT_TEST=test_other_backends)
  vlt_test(gpu_train SOURCES test_train_device.c train_run.c train_dataset.c LIBS vlt_train
           LABELS gpu)
  set_tests_properties(gpu_train PROPERTIES SKIP_RETURN_CODE 77)
  set_property(TEST gpu_train APPEND PROPERTY ENVIRONMENT VLT_DEVICE=cuda)
  set(goldens cogvideox cogvideox_lora)
  if(VLT_FFMPEG)
    list(APPEND goldens t5 vae_cogvideox)
  endif()
  foreach(golden ${goldens})
    add_test(NAME gpu_${golden} COMMAND test_${golden})
    set_tests_properties(gpu_${golden} PROPERTIES LABELS gpu TIMEOUT 600 SKIP_RETURN_CODE 77
      ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR};VLT_SOURCE=${CMAKE_SOURCE_DIR};VLT_DEVICE=cuda")
  endforeach()
endif()
