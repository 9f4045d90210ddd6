vlt_test(test_tokenizer SOURCES test_tokenizer.c fuzz_tokenizer.c mutate.c LIBS vlt_precompute vlt_formats)
vlt_test(test_tokenizer_limits SOURCES test_tokenizer_limits.c LIBS vlt_precompute vlt_formats)
