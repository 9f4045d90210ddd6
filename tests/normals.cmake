vlt_test(test_normals SOURCES test_normals.c LIBS vlt_common)
