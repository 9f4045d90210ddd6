# vtrain as a user runs it, disturbed.
add_executable(make_toy make_toy.c train_run.c train_dataset.c)
set_target_properties(make_toy PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(make_toy PRIVATE vlt_train vlt::cmocka)
vlt_script(vtrain_checkpoints vtrain_checkpoints.sh TIMEOUT 900)
vlt_script(vtrain_faults vtrain_faults.sh TIMEOUT 3600)
