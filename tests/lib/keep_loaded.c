/* keep_loaded.c - a library that is preloaded under sanitizers. The library keeps MPI's plugins
 * loaded, so that the leak checker finds the names of the plugins whose allocations ranks.supp
 * lists. */
int dlclose(void *handle);
int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
