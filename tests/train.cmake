vlt_test(test_train_objective SOURCES test_train_objective.c LIBS vlt_train)
vlt_test(test_train_lora SOURCES test_train_lora.c train_dataset.c LIBS vlt_train)
vlt_test(test_dit SOURCES test_dit.c LIBS vlt_train)
vlt_test(test_train SOURCES test_train.c train_run.c train_dataset.c LIBS vlt_train)
