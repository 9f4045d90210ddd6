# Other trainers' formats.
add_executable(xport_dataset xport_dataset.c)
set_target_properties(xport_dataset PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(xport_dataset PRIVATE vlt_formats)
vlt_test(test_pt SOURCES test_pt.c fuzz_pt.c mutate.c ../formats/pt_read.c ../formats/pt_pickle.c
         ../formats/pt_tensor.c ../formats/pt_write.c LIBS vlt_formats vlt::archive)
vlt_test(test_xport SOURCES test_xport.c ../formats/xport_convert.c ../formats/xport_family.c LIBS vlt_formats)
add_test(NAME xport COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/xport_run.sh)
set_tests_properties(xport PROPERTIES FIXTURES_REQUIRED made_dataset
                     ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR}")
