vlt_test(test_t5 SOURCES test_t5.c golden.c LIBS vlt_precompute m)
