vlt_test(test_resize SOURCES test_resize.c LIBS vlt_precompute vlt_common)
vlt_test(test_media SOURCES test_media.c media_clip.c LIBS vlt_precompute vlt_common)
vlt_test(test_media_still SOURCES test_media_still.c media_clip.c LIBS vlt_precompute vlt_common)
vlt_test(test_media_yuv SOURCES test_media_yuv.c LIBS vlt_precompute vlt_common)
vlt_test(test_media_data SOURCES test_media_data.c LIBS vlt_precompute vlt_common vlt::cjson TIMEOUT 900)

# Frames from a GPU, faked; and real ones (ctest -L gpu), also without -DVLT_CUDA: FFmpeg has NVDEC.
vlt_test(test_media_gpu SOURCES test_media_gpu.c media_clip.c LIBS vlt_precompute vlt_common)
if(VLT_FFMPEG)
  add_test(NAME gpu_media COMMAND test_media_gpu)
  set_tests_properties(gpu_media PROPERTIES LABELS gpu TIMEOUT 600 SKIP_REGULAR_EXPRESSION SKIPPED
    ENVIRONMENT VLT_TEST=test_nvdec)
endif()
