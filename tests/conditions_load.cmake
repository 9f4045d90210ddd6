vlt_test(test_conditions_load SOURCES test_conditions_load.c train_dataset.c train_run.c LIBS vlt_train)
