/* SPDX-License-Identifier: Apache-2.0 */
/* row_filter.h: declares the list of kernel rows that BP_KERNELS leaves out. The list is
 * applied once, while a plugin is loaded: a row that is left out gets a reason, like a row that
 * the machine cannot run, so that calls need no further check. */
#ifndef BP_ROW_FILTER_H
#define BP_ROW_FILTER_H

#include "loader.h"

/* Reads BP_KERNELS into core->row_filter, which stays NULL if the variable is not set. Words
 * without a sign are ignored, with a warning. */
enum bp_status bp_row_filter_create(struct bp_core *core);
void bp_row_filter_destroy(struct bp_core *core);

/* A step of loading, after the reasons of the plugin's own rows from number `first` are known:
 * gives the rows that the list leaves out a reason. A row that has a reason keeps that one. */
bool bp_row_filter_apply(struct bp_load *load, uint32_t first);

/* The last step of loading a plugin with devices: logs the rows that were left out, those of
 * add-ons too, and warns once about each pattern that no row of the plugins loaded so far
 * matches. */
bool bp_row_filter_report(struct bp_load *load);

#endif
