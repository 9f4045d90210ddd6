vlt_test(test_order SOURCES test_order.c train_dataset.c LIBS vlt_train)
