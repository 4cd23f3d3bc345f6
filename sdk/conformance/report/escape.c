/* SPDX-License-Identifier: Apache-2.0 */
/* escape.c: escapes text for XML and HTML. */
#include "escape.h"

/* The length of the UTF-8 sequence at text, and whether XML allows its character. 0: it is no valid
 * sequence. */
static int escape_sequence(const unsigned char *text, bool *out_allowed)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = *text < 0x80                    ? 1
            : *text >= 0xf0 && *text < 0xf8 ? 4
            : *text >= 0xe0                 ? 3
            : *text >= 0xc0                 ? 2
                                            : 0;
    uint32_t value = n == 1 ? *text : *text & (0x7fu >> n);

    if (n == 0 || *text >= 0xf8) return 0;
    for (int i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (text[i] & 0x3f);
    }
    if (value < least[n] || value > 0x10ffff) return 0;
    *out_allowed = value == '\t' || value == '\n' ||
                   (value >= 0x20 && value != 0x7f && (value < 0xd800 || value > 0xdfff) &&
                    value != 0xfffe && value != 0xffff);
    return n;
}

void escape(FILE *file, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    bool allowed = false;

    while (*at) {
        int n = escape_sequence(at, &allowed);
        if (!n || !allowed) fputc('?', file);
        else if (*at == '&') fputs("&amp;", file);
        else if (*at == '<') fputs("&lt;", file);
        else if (*at == '>') fputs("&gt;", file);
        else if (*at == '"') fputs("&quot;", file);
        else if (*at == '\'') fputs("&#39;", file);
        else fwrite(at, 1, (size_t)n, file);
        at += n ? n : 1;
    }
}
