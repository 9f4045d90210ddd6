# Conditions of training modes, and model folders, in vprep.
if(VLT_FFMPEG)
  add_executable(make_model make_model.c golden.c)
  set_target_properties(make_model PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(make_model PRIVATE vlt_formats vlt::cmocka)
  vlt_test(test_conditions SOURCES test_conditions.c mutate.c LIBS vlt_precompute)
  vlt_script(vprep_modes vprep_modes.sh TIMEOUT 600)
  vlt_script(vprep_model vprep_model.sh TIMEOUT 600)
endif()
