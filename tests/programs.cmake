# Tests of the programs as a user runs them.
function(vlt_script name script)
  cmake_parse_arguments(T "" "TIMEOUT" "ARGS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${T_ARGS})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR};VLT_SOURCE=${CMAKE_SOURCE_DIR}")
endfunction()

add_executable(dump_dataset dump_dataset.c)
set_target_properties(dump_dataset PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(dump_dataset PRIVATE vlt_formats)

vlt_script(arrows arrows.sh)
vlt_script(link link.sh)
vlt_script(flags_doc ../scripts/flags-doc ARGS --check)
vlt_script(vprep_run vprep_run.sh TIMEOUT 600)
vlt_script(vprep_reuse vprep_reuse.sh TIMEOUT 600)
vlt_script(vprep_kill vprep_kill.sh TIMEOUT 900)
vlt_test(test_codec SOURCES test_codec.c LIBS vlt_precompute)
vlt_test(test_plan SOURCES test_plan.c fuzz_plan.c mutate.c LIBS vlt_precompute)
vlt_test(test_prompts SOURCES test_prompts.c LIBS vlt_precompute)
