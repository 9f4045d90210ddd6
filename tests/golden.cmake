# Comparisons with diffusers, transformers and peft (scripts/golden.py); golden.c makes their models.
vlt_test(test_golden SOURCES test_golden.c golden.c LIBS vlt_formats)
