/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h: text of any origin inside XML and HTML. */
#ifndef BP_CONFORM_ESCAPE_H
#define BP_CONFORM_ESCAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Writes text so that it is valid inside an element or an attribute in quotes. What is not
 * UTF-8, and characters that XML has no place for, become '?'. */
void escape(FILE *file, const char *text);

#endif
