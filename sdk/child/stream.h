/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: collects a child's output up to a limit, and splits its report into lines. Private to
 * child.c. */
#ifndef BP_CHILD_STREAM_H
#define BP_CHILD_STREAM_H

#include <stdbool.h>
#include <stddef.h>

struct bp_child_output {
    char *at;
    size_t size, room, max;
};
void bp_child_output_init(struct bp_child_output *output, size_t max);
/* False: the data does not fit; the part that fits is kept. */
bool bp_child_output_add(struct bp_child_output *output, const char *data, size_t n);
/* The collected text, ended with 0, to be freed by bp_child_output_free; never NULL. */
char *bp_child_output_take(struct bp_child_output *output, size_t *out_size);
void bp_child_output_free(char *text);

/* A longer line ends the child. */
enum { BP_CHILD_LINE_MAX = 16 << 20 };

struct bp_child_lines {
    struct bp_child_output part; /* of a line without its newline so far */
    void (*report)(void *ctx, const char *line);
    void *ctx;
};
void bp_child_lines_init(struct bp_child_lines *lines, void (*report)(void *, const char *),
                         void *ctx);
/* Passes each complete line to the callback. False: the last line is longer than
 * BP_CHILD_LINE_MAX. */
bool bp_child_lines_add(struct bp_child_lines *lines, const char *data, size_t n);
/* Passes the text behind the last newline to the callback, if there is any. */
void bp_child_lines_finish(struct bp_child_lines *lines);

#endif
