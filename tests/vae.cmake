# Autoencoders against diffusers (tests/golden/vae_*).
vlt_test(test_vae_cogvideox SOURCES test_vae_cogvideox.c golden.c LIBS vlt_precompute m)
