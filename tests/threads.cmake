# What a machine may refuse: threads, stacks, memory. Tests of kernels and models run again where
# OpenMP gives fewer threads than they ask for.
function(vlt_again name suffix)
  if(TARGET ${name})
    add_test(NAME ${name}_${suffix} COMMAND ${name})
    set_tests_properties(${name}_${suffix} PROPERTIES TIMEOUT 300
      ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR};VLT_SOURCE=${CMAKE_SOURCE_DIR};${ARGN}")
  endif()
endfunction()

if(NOT VLT_SANITIZE)                    # a team's size is nothing that sanitizers see, and they are slow
  foreach(test test_matmul test_conv test_attention test_row test_t5)
    vlt_again(${test} limit OMP_THREAD_LIMIT=1)
    vlt_again(${test} dynamic OMP_DYNAMIC=true)
  endforeach()
  vlt_again(test_matmul defaults OMP_NUM_THREADS=1)
endif()
if(VLT_FFMPEG)
  vlt_script(threads threads.sh TIMEOUT 600)
  vlt_script(scarce scarce.sh TIMEOUT 900)
  set_tests_properties(scarce PROPERTIES LABELS slow)
endif()
