# The latent dataset. shards_make.c makes small ones for all of these.
vlt_test(test_shards SOURCES test_shards.c shards_make.c LIBS vlt_formats)
vlt_test(test_shards_closed SOURCES test_shards_closed.c shards_make.c LIBS vlt_formats)
vlt_test(test_shards_ranks SOURCES test_shards_ranks.c shards_make.c LIBS vlt_formats)
vlt_test(test_shards_damage SOURCES test_shards_damage.c shards_make.c LIBS vlt_formats)
vlt_test(test_lmdb_read SOURCES test_lmdb_read.c fuzz_lmdb.c mutate.c LIBS vlt_formats)
vlt_test(test_hostile SOURCES test_hostile.c fuzz_manifest.c mutate.c shards_make.c LIBS vlt_formats)

# A dataset that is looked at from outside: by vlat, and by Python's lmdb and safetensors alone (skipped
# where these are missing).
vlt_test(make_dataset SOURCES make_dataset.c shards_make.c LIBS vlt_formats)
add_test(NAME vlat_run COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/vlat_run.sh)
set_tests_properties(make_dataset PROPERTIES FIXTURES_SETUP made_dataset)
set_tests_properties(vlat_run PROPERTIES FIXTURES_REQUIRED made_dataset
                     ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR}")
find_program(VLT_PYTHON python3)
if(VLT_PYTHON)
  add_test(NAME read_dataset COMMAND ${VLT_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/read_dataset.py
           ${CMAKE_BINARY_DIR}/tests/made.lmdb)
  set_tests_properties(read_dataset PROPERTIES FIXTURES_REQUIRED made_dataset SKIP_RETURN_CODE 77)
endif()

target_sources(bench_dataset PRIVATE shards_make.c)
if(VLT_FUZZ)
  cmake_language(DEFER CALL target_sources fuzz_manifest PRIVATE shards_make.c)
endif()
