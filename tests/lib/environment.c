/* environment.c - is linked into every test (functions.cmake), so that a program that is run by
 * hand finds the source tree, with its goldens, and the build folder. ctest sets the same
 * variables. */
#include <stdlib.h>

static void __attribute__((constructor)) environment(void)
{
    setenv("VLT_SOURCE", VLT_SOURCE, 0);
    setenv("VLT_BUILD", VLT_BUILD, 0);
    setenv("VLT_MPI", VLT_MPI, 0);
#ifdef VLT_PRELOAD
    setenv("VLT_PRELOAD", VLT_PRELOAD, 0);
#endif
}
