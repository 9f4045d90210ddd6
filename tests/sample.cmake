vlt_test(test_sample SOURCES test_sample.c train_run.c train_dataset.c LIBS vlt_train)
vlt_test(test_sample_runs SOURCES test_sample_runs.c train_run.c train_dataset.c LIBS vlt_train)
