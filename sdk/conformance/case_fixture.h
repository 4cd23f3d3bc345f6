/* SPDX-License-Identifier: Apache-2.0 */
/* case_fixture.h: makes the fixture in which cases run: a core, a device, a stream. */
#ifndef BP_CONFORM_PLACE_H
#define BP_CONFORM_PLACE_H

#include "list.h"

/* Fills place. With open false no plugin is loaded and place->device stays NULL. library and
 * manifest: the paths of the plugin; "" to find them. Returns 0 or the exit status: 3 the device
 * does not exist, 1 it exists but cannot be used, 4 the core could not be created;
 * bp_error_message() has the cause. */
int fixture_init(struct fixture *fixture, const char *device, const char *library,
                 const char *manifest, bool open);
void fixture_finish(struct fixture *fixture);

/* The number of cases of the suite plugin. They are the first cases of every list and run without a
 * device. */
long plugin_cases(void);

/* Runs one case of the list. */
void listed_run(struct fixture *fixture, const struct listed *listed, struct result *out_result);

/* Whether an event recorded behind a small copy completes within timeout_s seconds. Also true after
 * any other failure. */
bool fixture_receives(struct fixture *fixture, double timeout_s);

#endif
