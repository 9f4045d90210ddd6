# These functions register tests. A source file is looked up in the caller's folder, then in lib/
# and fuzz/; the programs are built in <build>/tests.
set(VLT_TESTS_ENV "VLT_BUILD=${CMAKE_BINARY_DIR};VLT_SOURCE=${CMAKE_SOURCE_DIR}")
# When oneDNN 2.6 makes some convolutions for AMX, it reads an element beyond a list, which it does
# not use (skipped_bd_mask in jit_brgemm_amx_uker.cpp). Where the list ends with the sanitizer's
# memory, that is a segmentation fault.
if(VLT_SANITIZE)
  list(APPEND VLT_TESTS_ENV ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16)
endif()
# Threads of the tests' own programs sleep at barriers, since several tests share the cores.
set(VLT_PROGRAM_ENV "${VLT_TESTS_ENV};OMP_WAIT_POLICY=passive")
set(VLT_RANKS_ENV "VLT_MPI=${VLT_MPI_FOUND}")
if(VLT_SANITIZE)
  list(APPEND VLT_RANKS_ENV "VLT_PRELOAD=$<TARGET_FILE:keep_loaded>")
endif()
# Scripts find the library of lib/fault.c as $VLT_FAULT_LIB. Under sanitizers the library does not
# disturb allocations.
set(VLT_FAULT_ENV "VLT_FAULT_LIB=$<TARGET_FILE:vlt_fault>")
list(APPEND VLT_FAULT_ENV
     "VLT_FAULT_MEMORY=$<NOT:$<OR:$<BOOL:${VLT_SANITIZE}>,$<BOOL:${VLT_FUZZ}>>>")

list(APPEND VLT_FAULT_ENV "VLT_FAST_LIB=$<TARGET_FILE:vlt_fast>")

# Programs that do not find the last variable set it and start again (common/os/threads.h): in
# scripts each of some thousands would start twice.
set(VLT_SCRIPT_ENV "${VLT_TESTS_ENV};${VLT_RANKS_ENV};${VLT_FAULT_ENV};GOMP_SPINCOUNT=1000")

include(${CMAKE_CURRENT_LIST_DIR}/slow.cmake)

# Seconds that each test has at least: they end a test that hangs. No test takes a tenth of them on
# cores of its own; beside much other work some take a third.
set(VLT_LEAST_TIMEOUT 1800)
function(vlt_timeout name)
  set(seconds ${ARGN})
  if(NOT seconds OR seconds LESS VLT_LEAST_TIMEOUT)
    set(seconds ${VLT_LEAST_TIMEOUT})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds})
endfunction()

function(vlt_label_at_last name label)
  cmake_language(EVAL CODE
    "cmake_language(DEFER CALL set_property TEST ${name} APPEND PROPERTY LABELS ${label})")
endfunction()

# vlt_once(BUILD REASON NAME...): of the two builds of .ci/run, which are `plain` and `sanitized`,
# BUILD alone runs the tests, for the reason; docs/tests.md has the rule. In the other build they
# have the label `elsewhere`, which .ci/run leaves out, and `scripts/test --all` runs.
function(vlt_once build reason)
  if(NOT build MATCHES "^(plain|sanitized)$")
    message(FATAL_ERROR "vlt_once: the build ${build} is neither plain nor sanitized")
  endif()
  if((build STREQUAL "plain" AND VLT_SANITIZE) OR (build STREQUAL "sanitized" AND NOT VLT_SANITIZE))
    foreach(test ${ARGN})
      if(TEST ${test})
        set_property(GLOBAL APPEND PROPERTY VLT_ELSEWHERE ${test})
        vlt_label_at_last(${test} elsewhere)
      endif()
    endforeach()
  endif()
endfunction()

# vlt_label(NAME) gives the test the label `slow` if slow.cmake lists it; later properties of the
# test do not take it away. Programs of tests without it belong to the target fast_tests. ctest
# starts the slow tests first (COST), so that no core waits for the last of them; of those that wait
# more than they compute, two at a time, beside the others.
function(vlt_label name)
  if(name IN_LIST VLT_SLOW_TESTS)
    vlt_label_at_last(${name} slow)
    if(name IN_LIST VLT_SLOW_SANITIZED_TESTS)
      vlt_once(sanitized "it is slow" ${name})
    elseif(NOT name IN_LIST VLT_SLOW_TWICE_TESTS)
      vlt_once(plain "it is slow" ${name})
    endif()
    set_tests_properties(${name} PROPERTIES COST 1)
    list(FIND VLT_WAITING_TESTS ${name} place)
    if(place GREATER -1)
      math(EXPR lock "${place} % 2")
      set_tests_properties(${name} PROPERTIES COST 2 RESOURCE_LOCK waiting_${lock})
    endif()
  endif()
endfunction()

function(vlt_sources out)
  set(found)
  foreach(file ${ARGN})
    foreach(folder ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests/lib
            ${CMAKE_SOURCE_DIR}/tests/fuzz)
      if(EXISTS ${folder}/${file})
        file(REAL_PATH ${folder}/${file} file)
        break()
      endif()
    endforeach()
    list(APPEND found ${file})
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# vlt_compiled_once(OUT LIBS SOURCES) replaces each C source of tests/ but the first, which is the
# program's own, by its object, which is compiled once for all programs.
function(vlt_compiled_once out libs own)
  set(sources ${own})
  list(REMOVE_ITEM libs test_environment)
  foreach(file ${ARGN})
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE object)
    if(object MATCHES "^tests/.*\\.c$")
      string(MAKE_C_IDENTIFIER ${object} object)
      if(NOT TARGET ${object})
        add_library(${object} OBJECT ${file})
        target_link_libraries(${object} PRIVATE ${libs} vlt::cmocka)
      endif()
      set(file $<TARGET_OBJECTS:${object}>)
    endif()
    list(APPEND sources ${file})
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# vlt_program(NAME SOURCES a.c ... LIBS vlt_x ...) builds a program that tests run.
function(vlt_program name)
  cmake_parse_arguments(T "" "" "SOURCES;LIBS" ${ARGN})
  vlt_sources(files ${T_SOURCES})
  vlt_compiled_once(files "${T_LIBS}" ${files})
  add_executable(${name} ${files})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${T_LIBS})
  if(NOT name MATCHES "^bench_")
    set_property(GLOBAL APPEND PROPERTY VLT_PROGRAMS ${name})
  endif()
endfunction()

# vlt_test(NAME SOURCES a.c ... LIBS vlt_x ... [LABELS l ...] [TIMEOUT s] [ARGS a ...]) builds a
# cmocka program and registers it as a test.
function(vlt_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBS;LABELS;ARGS" ${ARGN})
  if("vlt_precompute" IN_LIST T_LIBS AND NOT VLT_FFMPEG)     # vlt_precompute is not built
    return()
  endif()
  vlt_program(${name} SOURCES ${T_SOURCES} LIBS ${T_LIBS} test_environment vlt::cmocka)
  set_property(GLOBAL APPEND PROPERTY VLT_TEST_PROGRAMS ${name})
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  vlt_label(${name})
  vlt_timeout(${name} ${T_TIMEOUT})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" ENVIRONMENT "${VLT_PROGRAM_ENV}")
endfunction()

# vlt_script(NAME x.sh [ARGS a ...] [TIMEOUT s]) registers a script; exit status 77 means "skipped".
function(vlt_script name script)
  cmake_parse_arguments(T "" "TIMEOUT" "ARGS" ${ARGN})
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${T_ARGS})
  vlt_label(${name})
  vlt_timeout(${name} ${T_TIMEOUT})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT "${VLT_SCRIPT_ENV}")
endfunction()

# vlt_not_sanitized(REASON NAME...) keeps tests out of builds with sanitizers: those that would find
# nothing there that other tests do not, for the reason. ctest lists them as disabled.
function(vlt_not_sanitized reason)
  if(NOT VLT_SANITIZE)
    return()
  endif()
  foreach(test ${ARGN})
    if(TEST ${test})
      set_tests_properties(${test} PROPERTIES DISABLED ON)
    endif()
  endforeach()
endfunction()

# vlt_starts_ranks(NAME...): the tests' commands start ranks by themselves, without the list of
# MPI's own leaks that ranks.sh gives to the sanitizer, which does not look for leaks there.
function(vlt_starts_ranks)
  if(VLT_SANITIZE)
    set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
  endif()
endfunction()

# vlt_ranks(NAME RANKS n COMMAND program args...) registers a command that mpirun runs on n ranks;
# without MPI the test is skipped.
function(vlt_ranks name)
  cmake_parse_arguments(T "" "TIMEOUT;RANKS" "COMMAND" ${ARGN})
  add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/lib/ranks.sh ${T_RANKS} ${T_COMMAND})
  vlt_label(${name})
  vlt_timeout(${name} ${T_TIMEOUT})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 LABELS ranks
    ENVIRONMENT "${VLT_TESTS_ENV};${VLT_RANKS_ENV};VLT_LEAKS=1")
endfunction()
