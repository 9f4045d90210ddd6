# The CPU kernels: sources relative to common/, and the instruction set each file is compiled for.
# cpu/simd/isa.c chooses the kernels at start-up, so one build serves all machines.
set(VLT_CPU_KERNEL_SOURCES
  cpu/simd/isa.c cpu/simd/rows.c cpu/gemm/pack.c
  cpu/matmul.c cpu/matmul_int8.c cpu/attn.c cpu/attn_grad.c cpu/conv.c cpu/conv_rows.c cpu/winograd.c
  cpu/ttt.c cpu/ttt_grad.c)

if(VLT_ONEDNN)
  list(APPEND VLT_CPU_KERNEL_SOURCES cpu/dnnl.c cpu/guard.c cpu/matmul_dnnl.c)
else()
  list(APPEND VLT_CPU_KERNEL_SOURCES cpu/dnnl_none.c)
endif()

set(vector_sources cpu/simd/rows_plain.c cpu/gemm/plain.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2 -mavx2 -mfma -mf16c)
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  set(avx512_bf16 ${avx512} -mavx512bf16)
  set(amx ${avx512_bf16} -mamx-tile -mamx-bf16)
  foreach(file simd/rows_avx2.c simd/rows_avx512.c simd/rows_avx512_bf16.c
          gemm/avx2.c gemm/avx512.c gemm/avx512_bf16.c gemm/amx.c)
    string(REGEX REPLACE ".*/(rows_)?([a-z0-9_]+)\\.c" "\\2" target ${file})
    list(APPEND vector_sources cpu/${file})
    set_source_files_properties(cpu/${file} PROPERTIES COMPILE_OPTIONS "${${target}}")
  endforeach()
endif()
list(APPEND VLT_CPU_KERNEL_SOURCES ${vector_sources})
if(VLT_SANITIZE)
  # At -O1, and with these checks of pointers, the vectors of an inner loop are kept in memory, which
  # took a third of the sanitized tests' time. The address sanitizer sees all loads and stores.
  set_property(SOURCE ${vector_sources} APPEND PROPERTY COMPILE_OPTIONS
    -O2 -fno-sanitize=alignment,bounds,null,object-size,pointer-overflow)
endif()
if(VLT_FUZZ)            # no target computes, and clang's sanitizers take up to 26 s a file of products
  set_property(SOURCE ${VLT_CPU_KERNEL_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all -O0)
endif()
