# Datasets out of datasets.
vlt_test(test_expr SOURCES test_expr.c LIBS vlt_formats)
vlt_test(test_term SOURCES test_term.c LIBS vlt_formats)
vlt_test(test_copy SOURCES test_copy.c shards_make.c LIBS vlt_formats)
add_test(NAME vlat_copy COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/vlat_copy.sh)
set_tests_properties(vlat_copy PROPERTIES FIXTURES_REQUIRED made_dataset
                     ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR}")
