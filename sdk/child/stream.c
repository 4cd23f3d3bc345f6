/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: keeps a child's output up to a limit, and splits its report into lines. */
#include "stream.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char nothing[1]; /* the output of a child that wrote nothing */

void bp_child_output_init(struct bp_child_output *output, size_t max)
{
    /* stream_make_room doubles the size, and adds one. */
    *output = (struct bp_child_output){.max = max < SIZE_MAX / 2 ? max : SIZE_MAX / 2};
}

/* Makes room for n bytes and the final 0; n is at most max. */
static bool stream_make_room(struct bp_child_output *output, size_t n)
{
    if (n < output->room) return true;
    size_t room = output->room ? output->room : 4096;
    while (room <= n) room *= 2;
    if (room > output->max + 1) room = output->max + 1;
    char *at = realloc(output->at, room);
    if (!at) return false;
    output->at = at;
    output->room = room;
    return true;
}

bool bp_child_output_add(struct bp_child_output *output, const char *data, size_t n)
{
    size_t left = output->max - output->size;
    size_t take = n < left ? n : left;

    if (!take) return !n;
    if (!stream_make_room(output, output->size + take)) return false;
    memcpy(output->at + output->size, data, take);
    output->size += take;
    output->at[output->size] = 0;
    return take == n;
}

char *bp_child_output_take(struct bp_child_output *output, size_t *out_size)
{
    char *text = output->at ? output->at : nothing;

    *out_size = output->size;
    *output = (struct bp_child_output){.max = output->max};
    return text;
}

void bp_child_output_free(char *text)
{
    if (text != nothing) free(text);
}

void bp_child_lines_init(struct bp_child_lines *lines, void (*report)(void *, const char *),
                         void *ctx)
{
    bp_child_output_init(&lines->part, BP_CHILD_LINE_MAX);
    lines->report = report;
    lines->ctx = ctx;
}

bool bp_child_lines_add(struct bp_child_lines *lines, const char *data, size_t n)
{
    while (n) {
        const char *end = memchr(data, '\n', n);
        size_t length = end ? (size_t)(end - data) : n;

        if (!bp_child_output_add(&lines->part, data, length)) return false;
        if (!end) return true;
        lines->report(lines->ctx, lines->part.size ? lines->part.at : "");
        lines->part.size = 0;
        if (lines->part.at) lines->part.at[0] = 0;
        data += length + 1;
        n -= length + 1;
    }
    return true;
}

void bp_child_lines_finish(struct bp_child_lines *lines)
{
    if (lines->part.size) lines->report(lines->ctx, lines->part.at);
    bp_child_output_free(lines->part.at);
    bp_child_output_init(&lines->part, BP_CHILD_LINE_MAX);
}
