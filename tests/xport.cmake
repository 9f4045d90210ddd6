# Other trainers' formats.
vlt_test(test_pt SOURCES test_pt.c fuzz_pt.c mutate.c ../formats/pt_read.c ../formats/pt_pickle.c
         ../formats/pt_write.c LIBS vlt_formats vlt::archive)
