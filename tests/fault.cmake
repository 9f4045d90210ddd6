include_guard()
# lib/fault.c, the library that tests preload to fail, kill or disturb a program at a counted call.
# Scripts use it through lib/fault.sh and find it as $VLT_FAULT_LIB. Under sanitizers it leaves memory
# to their runtime.
add_library(vlt_fault SHARED lib/fault.c)
target_link_libraries(vlt_fault PRIVATE ${CMAKE_DL_LIBS})
if(VLT_SANITIZE OR VLT_FUZZ)
  target_compile_options(vlt_fault PRIVATE -fno-sanitize=all)
  target_link_options(vlt_fault PRIVATE -fno-sanitize=all)
  target_compile_definitions(vlt_fault PRIVATE VLT_FAULT_NO_MEMORY)
endif()
set(VLT_FAULT_ENV "VLT_FAULT_LIB=$<TARGET_FILE:vlt_fault>;VLT_FAULT_MEMORY=$<NOT:$<OR:$<BOOL:${VLT_SANITIZE}>,$<BOOL:${VLT_FUZZ}>>>")
