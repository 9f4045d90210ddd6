/* arrow_read.h - a reader of Arrow IPC streams for tests. Columns are bool, int64, text and lists
 * of text, without nulls. A stream that breaks the format ends the program with a message. */
#ifndef TESTS_FORMATS_ARROW_READ_H
#define TESTS_FORMATS_ARROW_READ_H

/* Returns a line of "name:type" (bool, int64, utf8, list) and a line of values for each row,
 * separated by tabs; a list is written as [a|b]. The caller frees the text. The number of record
 * batches is stored in *batches. */
char *arrow_read(const char *path, int *batches);

#endif
