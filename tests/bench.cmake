# Programs of scripts/bench; not tests.
function(vlt_bench name)
  add_executable(${name} ${name}.c)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARGN})
endfunction()

if(VLT_FFMPEG)
  vlt_bench(bench_media vlt_precompute)
endif()
vlt_bench(bench_dataset vlt_formats)
vlt_bench(bench_kernels vlt_common)
vlt_bench(random_dataset vlt_formats)
