/* fuzz_asan.c - AddressSanitizer as all fuzz targets use it: freed memory is kept from reuse for a
 * few inputs, in place of many thousand, so that it stays in the processor's cache. A report does
 * not say who allocated the memory, until the input that was found runs again with
 * ASAN_OPTIONS=malloc_context_size=30: libraries without frame pointers give each allocation other
 * callers, all of which would be kept. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "quarantine_size_mb=2:thread_local_quarantine_size_kb=32:malloc_context_size=0";
}
