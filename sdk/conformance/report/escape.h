/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h: writes text of any origin into XML and HTML. */
#ifndef BP_CONFORM_ESCAPE_H
#define BP_CONFORM_ESCAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Writes text so that it is valid inside an element or a quoted attribute. Bytes that are not
 * UTF-8, and characters that XML does not allow, become '?'. */
void escape(FILE *file, const char *text);

#endif
