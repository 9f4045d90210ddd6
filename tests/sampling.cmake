# Choices and pixels of --sampling peer, switch by switch; vprep's flags for them.
vlt_test(test_sampling SOURCES test_sampling.c LIBS vlt_buckets)
if(VLT_FFMPEG)
  vlt_test(test_peer_pixels SOURCES test_peer_pixels.c LIBS vlt_precompute)
  vlt_test(test_mask_cut SOURCES test_mask_cut.c LIBS vlt_precompute)
  vlt_script(vprep_sampling vprep_sampling.sh TIMEOUT 600)
endif()
