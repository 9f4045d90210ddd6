# libFuzzer targets, with coverage and the sanitizers in everything they link:
#   cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DVLT_FUZZ=ON
#   cmake --build build-fuzz --target fuzz
#   build-fuzz/tests/fuzz_x [-max_total_time=SECONDS] [CORPUS]
if(VLT_FUZZ)
  add_custom_target(fuzz)
  function(vlt_fuzz name)
    add_executable(fuzz_${name} EXCLUDE_FROM_ALL fuzz_${name}.c)
    set_target_properties(fuzz_${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_${name} PRIVATE ${ARGN})
    add_dependencies(fuzz fuzz_${name})
  endfunction()

  vlt_fuzz(safetensors vlt_formats)
  vlt_fuzz(metadata vlt_formats)
  vlt_fuzz(lmdb vlt_formats)
  vlt_fuzz(manifest vlt_formats)
  vlt_fuzz(pt vlt_vlat)
  if(VLT_SQLITE)
    vlt_fuzz(tensor_cache vlt_vlat)
  endif()
  if(VLT_FFMPEG)
    vlt_fuzz(plan vlt_precompute)
    vlt_fuzz(tokenizer vlt_precompute)
  endif()
endif()
