/* fuzz_asan.c - AddressSanitizer as all fuzz targets use it: freed memory is kept from reuse for a
 * few inputs, in place of many thousand, so that it stays in the processor's cache, and a report
 * has fewer callers of an allocation. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "quarantine_size_mb=2:thread_local_quarantine_size_kb=32:malloc_context_size=6";
}
