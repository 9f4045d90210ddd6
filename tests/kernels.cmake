# The linker's --wrap lets the tests put AMX's kernels over emulated tiles where the library asks
# for a set (kernels_dev.c).
set(kernels_support kernels_dev.c kernels_emulated.c kernels_wide.c)
foreach(test test_kernels test_matmul test_attention test_conv)
  vlt_test(${test} SOURCES ${test}.c ${kernels_support} LIBS vlt_common m TIMEOUT 900)
  target_link_options(${test} PRIVATE LINKER:--wrap=cpu_gemm_of)
endforeach()
# 16 lanes without AVX-512: gcc notes that such vectors could not be passed to other files.
set_source_files_properties(kernels_emulated.c kernels_wide.c PROPERTIES COMPILE_OPTIONS -Wno-psabi)
if(VLT_ONEDNN AND TARGET bench_kernels)          # bench.cmake comes first
  target_compile_definitions(bench_kernels PRIVATE VLT_ONEDNN)
endif()
