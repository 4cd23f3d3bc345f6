/* SPDX-License-Identifier: Apache-2.0 */
/* row_layouts.h: declares the checks of the layouts that kernel rows take. */
#ifndef BP_ROW_LAYOUTS_H
#define BP_ROW_LAYOUTS_H

#include "entry.h"

/* Writes why a row cannot use its layouts; false: it can. Lists without a layout become NULL. */
bool bp_row_layouts_find_misfit(const struct bp_plugin_entry *entry, struct bp_kernel *row,
                                char *text, size_t size);

/* Writes why a row cannot be used although it is right itself: no usable row of assign converts to,
 * or from, one of its layouts. false: there are both. All rows have their reasons. */
bool bp_row_layouts_find_lost(const struct bp_plugin_entry *entry, const struct bp_kernel *row,
                              char *text, size_t size);

/* Returns the names of a row's layouts by declared port, "blocks, - -> blocks", to be freed; NULL:
 * no memory. */
char *bp_row_layouts_text(const struct bp_plugin_entry *entry, const struct bp_kernel *row);

#endif
