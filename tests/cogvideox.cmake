# CogVideoX's transformer against diffusers (scripts/golden/cogvideox.py), and what it refuses.
vlt_test(test_cogvideox SOURCES test_cogvideox.c cogvideox_model.c golden.c LIBS vlt_train)
vlt_test(test_cogvideox_lora SOURCES test_cogvideox_lora.c cogvideox_model.c golden.c LIBS vlt_train)
vlt_test(test_cogvideox_errors SOURCES test_cogvideox_errors.c cogvideox_model.c golden.c train_run.c
         train_dataset.c
         LIBS vlt_train)
