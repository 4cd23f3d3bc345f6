/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: what comes out of a child: its output, kept up to a limit, and its report, cut into
 * lines. Private to child.c. */
#ifndef BP_CHILD_STREAM_H
#define BP_CHILD_STREAM_H

#include <stdbool.h>
#include <stddef.h>

struct bp_child_output {
    char *at;
    size_t size, room, max;
};
void bp_child_output_init(struct bp_child_output *output, size_t max);
/* False: it does not fit; what fits is kept. */
bool bp_child_output_add(struct bp_child_output *output, const char *data, size_t n);
/* The text, ended with 0, for bp_child_output_free; never NULL. */
char *bp_child_output_take(struct bp_child_output *output, size_t *out_size);
void bp_child_output_free(char *text);

/* A longer line is too much: it ends the child. */
enum { BP_CHILD_LINE_MAX = 16 << 20 };

struct bp_child_lines {
    struct bp_child_output part; /* of a line that has no end yet */
    void (*report)(void *ctx, const char *line);
    void *ctx;
};
void bp_child_lines_init(struct bp_child_lines *lines, void (*report)(void *, const char *),
                         void *ctx);
/* Hands on each full line. False: the last one is longer than BP_CHILD_LINE_MAX. */
bool bp_child_lines_add(struct bp_child_lines *lines, const char *data, size_t n);
/* Hands on what stands behind the last newline, if anything does. */
void bp_child_lines_finish(struct bp_child_lines *lines);

#endif
