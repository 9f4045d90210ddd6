vlt_test(test_lora_files SOURCES test_lora_files.c golden.c LIBS vlt_train)
