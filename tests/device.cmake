# The CUDA backend's host code and kernel bodies on the CPU: every row of test_ops, no GPU needed. The
# linker's --wrap puts the device "host" among the backends (device_host.c).
set(device_sources device_host.c ../common/cuda/cuda_walk.c ../common/cuda/cuda_elem.c
    ../common/cuda/cuda_rows.c ../common/cuda/cuda_video.c)
vlt_test(test_device SOURCES test_ops.c ops_check.c ops_ref.c ${device_sources} LIBS vlt_common m)
set_property(TEST test_device APPEND PROPERTY ENVIRONMENT VLT_TEST=test_other_backends)
vlt_test(test_row SOURCES test_row.c ${device_sources} LIBS vlt_common m)
foreach(test test_device test_row)
  target_link_options(${test} PRIVATE LINKER:--wrap=vt_backends,--wrap=vt_backend_open)
endforeach()
