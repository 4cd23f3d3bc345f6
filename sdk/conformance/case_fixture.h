/* SPDX-License-Identifier: Apache-2.0 */
/* case_fixture.h: makes the place where cases run: a core, a device, a stream. */
#ifndef BP_CONFORM_PLACE_H
#define BP_CONFORM_PLACE_H

#include "list.h"

/* open: 0 leaves device NULL, and then loads no plugin. library and manifest: "" to find them.
 * Answers 0, or the exit status: 3 no such device, 4 anything else; bp_error_message() says
 * what. */
int place_init(struct place *place, const char *device, const char *library, const char *manifest,
               bool open);
void place_finish(struct place *place);

/* How many cases the suite plugin has: the first ones of every list, which run without a device. */
long plugin_cases(void);

/* Runs one case of the list. */
void listed_run(struct place *place, const struct listed *listed, struct result *out_result);

/* Whether an event behind a small copy comes within so many seconds. */
bool place_hears(struct place *place, double timeout_s);

#endif
