vlt_test(test_base SOURCES test_base.c LIBS vlt_common)
vlt_test(test_flags SOURCES test_flags.c LIBS vlt_common)
vlt_test(test_queue SOURCES test_queue.c LIBS vlt_common)
vlt_test(test_progress SOURCES test_progress.c LIBS vlt_common)
