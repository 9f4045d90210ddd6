vlt_test(test_conditions_load SOURCES test_conditions_load.c conditions_set.c train_dataset.c
         LIBS vlt_train)
vlt_test(test_conditions_step SOURCES test_conditions_step.c conditions_set.c train_dataset.c
         train_run.c LIBS vlt_train)
