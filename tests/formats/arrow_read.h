/* arrow_read.h - a reader of Arrow IPC streams for tests: no nulls, columns of bool, int64, text
 * and lists of text. A stream that breaks the format ends the program with a message. */
#ifndef TESTS_FORMATS_ARROW_READ_H
#define TESTS_FORMATS_ARROW_READ_H

/* Returns a line of "name:type" (bool, int64, utf8, list), then a line for each row: values with
 * tabs between them, lists as [a|b]. The caller frees the text. */
char *arrow_read(const char *path, int *batches);

#endif
