/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.c: writes the one message for a plugin that cannot be used, and prepares texts for
 * messages. */
#include "loader.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refusal_set(struct bp_refusal *why, uint32_t state, const char *file,
                        const char *format, va_list args)
{
    char shown[BP_SHOWN_PATH], *rest = NULL;

    why->state = state;
    why->memory = vasprintf(&rest, format, args) < 0;
    if (why->memory) return false;
    why->memory = asprintf(&why->text, "%s: %s", bp_show(shown, sizeof shown, file), rest) < 0;
    if (why->memory) why->text = NULL;
    free(rest);
    return false;
}

bool bp_broken(struct bp_refusal *why, const char *file, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    refusal_set(why, BP_PLUGIN_BROKEN, file, format, args);
    va_end(args);
    return false;
}

bool bp_absent(struct bp_refusal *why, const char *file, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    refusal_set(why, BP_PLUGIN_ABSENT, file, format, args);
    va_end(args);
    return false;
}

bool bp_no_memory(struct bp_refusal *why, const char *file)
{
    bp_broken(why, file, "not enough host memory to load it; free some and ask again");
    why->memory = true;
    return false;
}

/* glibc translates its messages like those of strerror, except one: "out of memory", when there is
 * no memory for any other text. */
enum bp_library_cause bp_library_cause(const char *path, const char *why)
{
    size_t length = strlen(path);

    if (!why || bp_path_has_suffix(why, strerror(ENOMEM)) || !strcmp(why, "out of memory"))
        return BP_LIBRARY_MEMORY;
    if (bp_path_has_suffix(why, strerror(ENOENT)) &&
        (strncmp(why, path, length) || why[length] != ':'))
        return BP_LIBRARY_LACKS;
    return BP_LIBRARY_OTHER;
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Whether c continues a UTF-8 character that an earlier byte began. */
static bool is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

const char *bp_show(char *to, size_t size, const char *text)
{
    static const char gap[] = "...";
    size_t length = strlen(text), head = length, tail = length, n = 0;

    if (length >= size) {
        head = (size - sizeof gap) / 3; /* the end of a path is more useful than its beginning */
        tail = length - (size - sizeof gap - head);
        while (head && is_inside(text[head])) head--;
        while (is_inside(text[tail])) tail++;
    }
    for (size_t i = 0; i < head; i++) to[n++] = is_control(text[i]) ? '?' : text[i];
    if (head < length) n = (size_t)(stpcpy(to + n, gap) - to);
    for (size_t i = tail; i < length; i++) to[n++] = is_control(text[i]) ? '?' : text[i];
    to[n] = 0;
    return to;
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
    for (; text[n] && n < MAX; n++) *to++ = is_control(text[n]) ? '?' : text[n];
    strcpy(to, text[n] ? "...\"" : "\"");
    return quote->text;
}
