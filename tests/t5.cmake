vlt_test(test_t5 SOURCES test_t5.c t5_model.c golden.c LIBS vlt_precompute m)
vlt_test(test_t5_files SOURCES test_t5_files.c t5_model.c golden.c LIBS vlt_precompute)
