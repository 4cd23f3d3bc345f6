/* SPDX-License-Identifier: Apache-2.0 */
/* number.h: reads and writes numbers in the library's own texts, whose decimal point is a point
 * whatever locale the app has set. */
#ifndef BP_CORE_NUMBER_H
#define BP_CORE_NUMBER_H

#include <stddef.h>

/* Reads a number as strtod does in the locale C. */
double bp_number_parse(const char *text, char **out_end);

/* Writes a number with this many digits as "%.*g" does in the locale C. */
void bp_number_print(char *out, size_t size, int digits, double number);

#endif
