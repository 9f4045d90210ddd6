# Conditions of training modes, and model folders, in vprep.
vlt_test(test_conditions SOURCES test_conditions.c LIBS vlt_precompute)
vlt_script(vprep_modes vprep_modes.sh TIMEOUT 600)
