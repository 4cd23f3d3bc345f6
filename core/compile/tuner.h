/* SPDX-License-Identifier: Apache-2.0 */
/* tuner.h: declares how kernel rows are chosen by measured time. Where several rows of a device
 * take a call, a tuner times them on tensors of the call's types. It keeps the choice in memory and
 * in a file, by the device (names, versions and rows, as in saved.h) and the call (operator,
 * attributes, types, strides, frozen inputs). */
#ifndef BP_TUNER_H
#define BP_TUNER_H

#include "../call/prepared.h"

struct bp_tuner;

/* folder: of the file with kept choices, or NULL: none is read or written. measures: calls without
 * a kept choice are timed. A file that is damaged is ignored. */
enum bp_status bp_tuner_create(struct bp_device *device, const char *folder, bool measures,
                               struct bp_tuner **out_tuner);

/* Returns the row that is faster for this call than the row of highest priority by more than the
 * spread of the measurement; NULL: none is known. The name is valid as long as the tuner. */
const char *bp_tuner_choose(struct bp_tuner *tuner, const struct bp_invocation *inv);

/* Writes new choices to the file, beside those that other programs have written meanwhile, and
 * destroys the tuner. A failure to write is returned; NULL is no tuner. */
enum bp_status bp_tuner_destroy(struct bp_tuner *tuner);

/* tuner_measure.c: times the rows that take a call. Writes the name of the chosen row to row, ""
 * for the row of highest priority. false: the call cannot be timed now. */
enum {
    BP_TUNER_ROW = 96
};
bool bp_tuner_measure(struct bp_device *device, const struct bp_invocation *inv,
                      char row[BP_TUNER_ROW]);

#endif
