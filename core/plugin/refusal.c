/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.c: the one message that a plugin which cannot be used gets. */
#include "loader.h"
#include <stdio.h>
#include <string.h>

static bool refuse(struct bp_refusal *why, uint32_t state, const char *format, va_list args)
{
    why->state = state;
    if (vasprintf(&why->text, format, args) < 0) why->text = NULL;
    return false;
}

bool bp_broken(struct bp_refusal *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    refuse(why, BP_PLUGIN_BROKEN, format, args);
    va_end(args);
    return false;
}

bool bp_absent(struct bp_refusal *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    refuse(why, BP_PLUGIN_ABSENT, format, args);
    va_end(args);
    return false;
}

const char *bp_quote(struct bp_quote *quote, const char *text)
{
    enum {
        MAX = sizeof quote->text - sizeof "\"...\""
    };
    char *to = quote->text;
    size_t n = 0;

    if (!text) return strcpy(quote->text, "nothing");
    *to++ = '"';
    for (; text[n] && n < MAX; n++) {
        unsigned char c = (unsigned char)text[n];
        *to++ = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    strcpy(to, text[n] ? "...\"" : "\"");
    return quote->text;
}
