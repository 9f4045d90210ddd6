include_guard()
# Tests of several ranks. vlt_ranks(NAME RANKS n COMMAND program args...): the command on n ranks by
# mpirun; skipped where there is no MPI.
if(VLT_SANITIZE)
  add_library(keep_loaded SHARED keep_loaded.c)
  target_link_options(keep_loaded PRIVATE -fno-sanitize=all)
  target_compile_options(keep_loaded PRIVATE -fno-sanitize=all)
  set(VLT_PRELOAD $<TARGET_FILE:keep_loaded>)
endif()
function(vlt_ranks name)
  cmake_parse_arguments(T "" "TIMEOUT;RANKS" "COMMAND" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/ranks.sh ${T_RANKS} ${T_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77 LABELS ranks
    ENVIRONMENT "VLT_BUILD=${CMAKE_BINARY_DIR};VLT_SOURCE=${CMAKE_SOURCE_DIR};VLT_MPI=${VLT_MPI_FOUND};VLT_PRELOAD=${VLT_PRELOAD}")
endfunction()

vlt_test(test_comm SOURCES test_comm.c LIBS vlt_comm ARGS 1)
foreach(n 2 3 4)
  vlt_ranks(comm_ranks_${n} RANKS ${n} COMMAND $<TARGET_FILE:test_comm> ${n})
endforeach()
add_test(NAME comm_launcher COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/comm_launcher.sh $<TARGET_FILE:test_comm>)
set_property(TEST comm_launcher PROPERTY ENVIRONMENT "VLT_MPI=${VLT_MPI_FOUND}")

vlt_test(test_train_ranks SOURCES test_train_ranks.c train_run.c train_dataset.c golden.c
         LIBS vlt_train LABELS ranks TIMEOUT 900)
add_dependencies(test_train_ranks vtrain)
set_tests_properties(test_train_ranks PROPERTIES SKIP_RETURN_CODE 77)
set_property(TEST test_train_ranks APPEND PROPERTY ENVIRONMENT
  "VLT_MPI=${VLT_MPI_FOUND};VLT_PRELOAD=${VLT_PRELOAD}")
