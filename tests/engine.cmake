vlt_test(test_ops SOURCES test_ops.c ops_check.c ops_ref.c LIBS vlt_common m)
vlt_test(test_engine SOURCES test_engine.c engine_model.c LIBS vlt_common m)
vlt_test(test_params SOURCES test_params.c engine_model.c LIBS vlt_common m)
vlt_test(test_adamw SOURCES test_adamw.c engine_model.c LIBS vlt_common m)
vlt_test(test_tape SOURCES test_tape.c engine_model.c LIBS vlt_common m)
target_link_options(test_tape PRIVATE
  LINKER:--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc)
