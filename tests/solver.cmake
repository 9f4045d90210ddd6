vlt_test(test_solver SOURCES test_solver.c golden.c LIBS vlt_train)
