vlt_test(test_buckets SOURCES test_buckets.c LIBS vlt_buckets)
vlt_test(test_choose SOURCES test_choose.c LIBS vlt_buckets)
vlt_test(test_sampler SOURCES test_sampler.c LIBS vlt_buckets)
