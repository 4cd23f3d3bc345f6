/* SPDX-License-Identifier: Apache-2.0 */
/* number.c: reads and writes numbers in the locale C, which only the calling thread uses
 * meanwhile. */
#include "number.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* The locale C needs no memory; should it not exist, the app's locale stays. */
static locale_t number_begin(locale_t *out_before)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);

    *out_before = c ? uselocale(c) : (locale_t)0;
    return c;
}

static void number_end(locale_t c, locale_t before)
{
    if (before) uselocale(before);
    if (c) freelocale(c);
}

double bp_number_parse(const char *text, char **out_end)
{
    locale_t before, c = number_begin(&before);
    double number = strtod(text, out_end);

    number_end(c, before);
    return number;
}

void bp_number_print(char *out, size_t size, int digits, double number)
{
    locale_t before, c = number_begin(&before);

    snprintf(out, size, "%.*g", digits, number);
    number_end(c, before);
}
