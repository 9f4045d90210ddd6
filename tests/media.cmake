vlt_test(test_resize SOURCES test_resize.c LIBS vlt_precompute vlt_common)
vlt_test(test_media SOURCES test_media.c media_clip.c LIBS vlt_precompute vlt_common)
vlt_test(test_media_still SOURCES test_media_still.c media_clip.c LIBS vlt_precompute vlt_common)
vlt_test(test_media_data SOURCES test_media_data.c LIBS vlt_precompute vlt_common vlt::cjson TIMEOUT 900)
