/* Preloaded under sanitizers: MPI's plugins stay loaded, so that the leak checker can tell by name
 * that what they keep is theirs. */
int dlclose(void *handle);
int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
