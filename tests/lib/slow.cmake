# Tests that `scripts/test` leaves out and `scripts/test --all` runs (ctest's label `slow`): each
# took 16 seconds or more on two cores that other builds shared, 6 on idle ones. ctest keeps what
# each test took in build/Testing/Temporary/CTestCostData.txt.
set(VLT_SLOW_TESTS
    bench_rows exchange_faults gpu_media kills pip scarce test_both_transformers test_matmul
    test_media test_media_data test_media_ends test_media_gpu test_media_order test_media_still
    test_ptx test_train_epochs test_train_kill test_train_ranks test_train_ranks_ends
    test_train_sequence test_vae_cogvideox test_vae_hunyuan test_vae_ltx test_vae_wan test_watch
    threads torn train_ranks_device train_ranks_ends_device train_sequence_device
    vae_cogvideox_device vae_hunyuan_device vae_ltx_device vae_wan_device vlat_faults_error
    vlat_faults_kill vlat_kill vlat_pull vlat_share
    vprep_changed vprep_hunyuanvideo_i2v vprep_kill vprep_layouts vprep_limits vprep_lists
    vprep_long vprep_missing vprep_progress vprep_ranks vprep_ranks_full vprep_ranks_kill
    vprep_segments vprep_shard vprep_silent vtrain_connect vtrain_control vtrain_faults
    vtrain_memory vtrain_memory_short vtrain_offload vtrain_silent vtrain_slurm vtrain_variants
    vtrain_wan_i2v)
# Of the two builds of .ci/run (vlt_once in functions.cmake) one runs a slow test: the plain one,
# but for those that look for wrong accesses and leaks where calls fail and inputs are broken,
set(VLT_SLOW_SANITIZED_TESTS vlat_share vprep_lists vprep_missing)
# and both run those of whose folder no other test goes as far, or of which each build runs a part.
set(VLT_SLOW_TWICE_TESTS
    exchange_faults test_matmul test_media test_media_data test_media_still test_train_ranks
    test_train_ranks_ends test_train_sequence test_vae_cogvideox test_vae_hunyuan test_vae_ltx
    test_vae_wan vlat_faults_error vlat_pull vprep_ranks vtrain_faults)
# Those of the slow tests that wait for a limit or a signal more than they compute.
set(VLT_WAITING_TESTS vlat_pull vprep_silent vtrain_connect vtrain_silent test_watch vtrain_slurm)
