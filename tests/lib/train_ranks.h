/* train_ranks.h - runs of vtrain on several ranks, which ranks.sh starts. $VLT_PROGRAM names the
 * vtrain of the build folder, and $VLT_DEVICE its device; the defaults are "vtrain" and "cpu"
 * (tests/device sets "host", whose memory is shared by links between devices alone). */
#ifndef TESTS_LIB_TRAIN_RANKS_H
#define TESTS_LIB_TRAIN_RANKS_H

#include <stdbool.h>
#include <stddef.h>

#define RANKS_BUILTIN "--dit_width 32 --dit_layers 5 --dit_heads 2 "
#define RANKS_TINY "--train_batch_size 2 --seed 5 --threads 1 "      /* after those of the model */

extern char *ranks_output;                      /* stdout and stderr of the last run */
extern const char *ranks_program, *ranks_device;
extern const char *ranks_model;                 /* its flags; RANKS_BUILTIN at first */

/* Called first: returns 0, or 77 if there is no MPI, so that the tests are skipped. */
int ranks_begin(void);
/* The tests of such a program: those of every device, and those of the CPU, or of another device,
 * alone. */
struct CMUnitTest;
typedef struct ranks_group { const struct CMUnitTest *test; size_t n; } ranks_group;
#define RANKS_GROUP(tests) (ranks_group){ tests, sizeof (tests) / sizeof *(tests) }
typedef struct ranks_tests { ranks_group all, on_cpu, elsewhere; } ranks_tests;
/* Runs them, of which $VLT_TEST may name one (* matches any letters), removes DIR, and returns the
 * number of those that failed. */
int ranks_end(const ranks_tests *t, const char *dir);
/* Runs vtrain on `ranks` ranks with DIR/set.lmdb, and returns its exit status; -1 is one rank,
 * started by ranks.sh too. */
int ranks_run(int ranks, const char *dir, const char *out, const char *args);
/* Fails the test unless the run succeeds. */
void ranks_ok(int ranks, const char *dir, const char *out, const char *args);
/* The number of times that a text occurs in ranks_output. */
int ranks_say(const char *what);
/* Whether a test leaves out rows, whose code the test runs without sanitizers, and on the CPU: that
 * of another device gives the same numbers. */
bool ranks_fewer(void);

#endif
