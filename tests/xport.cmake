# Other trainers' formats.
add_executable(xport_dataset xport_dataset.c)
set_target_properties(xport_dataset PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(xport_dataset PRIVATE vlt_formats)
vlt_test(test_pt SOURCES test_pt.c fuzz_pt.c mutate.c ../formats/pt_read.c ../formats/pt_pickle.c
         ../formats/pt_tensor.c ../formats/pt_write.c LIBS vlt_formats vlt::archive)
vlt_test(test_xport SOURCES test_xport.c ../formats/xport_convert.c ../formats/xport_family.c
         ../formats/sha256.c LIBS vlt_formats)
# vlt_xport(NAME SCRIPT)
function(vlt_xport name script)
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${script})
  set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED made_dataset
                       ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR}")
endfunction()
vlt_xport(xport xport_run.sh)
vlt_xport(vlat_kill vlat_kill.sh)
if(VLT_SQLITE)
  set(pt ../formats/pt_read.c ../formats/pt_pickle.c ../formats/pt_tensor.c ../formats/pt_write.c)
  vlt_test(test_tensor_cache SOURCES test_tensor_cache.c fuzz_tensor_cache.c mutate.c
           ../formats/tensor_cache.c ${pt} LIBS vlt_formats vlt::archive vlt::sqlite3)
  add_executable(dpipe_cache dpipe_cache.c ../formats/xport_dict.c ${pt})
  set_target_properties(dpipe_cache PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(dpipe_cache PRIVATE vlt_formats vlt::archive vlt::sqlite3)
  vlt_xport(xport_dpipe xport_dpipe.sh)
endif()
