# Choices of --sampling peer, switch by switch.
vlt_test(test_sampling SOURCES test_sampling.c LIBS vlt_buckets)
