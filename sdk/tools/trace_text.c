/* SPDX-License-Identifier: Apache-2.0 */
/* trace_text.c: writes JSON of many million events fast. */
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void out_bytes(struct trace_out *out, const char *bytes, size_t n)
{
    while (n) {
        size_t part = sizeof out->bytes - out->n < n ? sizeof out->bytes - out->n : n;
        memcpy(out->bytes + out->n, bytes, part);
        out->n += part;
        bytes += part;
        n -= part;
        if (out->n < sizeof out->bytes) break;
        fwrite(out->bytes, 1, out->n, out->file);
        out->n = 0;
    }
}

void bp_trace_put(struct trace_out *out, const char *text)
{
    out_bytes(out, text, strlen(text));
}

void bp_trace_number(struct trace_out *out, uint64_t number)
{
    char digits[24], *at = digits + sizeof digits;

    do *--at = (char)('0' + number % 10);
    while (number /= 10);
    out_bytes(out, at, (size_t)(digits + sizeof digits - at));
}

void bp_trace_us(struct trace_out *out, uint64_t ns)
{
    char digits[4] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                      (char)('0' + ns % 10)};

    bp_trace_number(out, ns / 1000);
    out_bytes(out, digits, sizeof digits);
}

void bp_trace_quoted(struct trace_out *out, const char *text)
{
    char *clean = NULL;

    for (const char *c = text; *c && !clean; c++)
        if (*c < ' ' || *c > '~') clean = bp_text_clean(text);
    if (clean) text = clean;
    out_bytes(out, "\"", 1);
    for (const char *special; (special = strpbrk(text, "\"\\<")); text = special + 1) {
        out_bytes(out, text, (size_t)(special - text));
        /* "</script>" would end the data of a page. */
        if (*special == '<') bp_trace_put(out, "\\u003c");
        else out_bytes(out, (char[2]){'\\', *special}, 2);
    }
    bp_trace_put(out, text);
    out_bytes(out, "\"", 1);
    free(clean);
}

int bp_trace_flush(struct trace_out *out)
{
    fwrite(out->bytes, 1, out->n, out->file);
    out->n = 0;
    errno = 0;
    if (!fflush(out->file) && !ferror(out->file)) return 0;
    return errno ? errno : EIO;
}
