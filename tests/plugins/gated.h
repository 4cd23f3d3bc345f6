/* SPDX-License-Identifier: Apache-2.0 */
/* gated.h: how a test tells tests/plugins/gated.c what to do: the table that gated_control answers.
 * Any thread may call, and all instances of the library obey. */
#ifndef BP_TEST_GATED_H
#define BP_TEST_GATED_H

#include <stdint.h>

struct gated_control {
    void (*hold)(int on);            /* work that is given from now on does not run (1), or does */
    void (*open)(void);              /* all that was held runs */
    uint64_t (*ended)(void);         /* pieces of work that have run, so far */
    void (*fail)(uint32_t status);   /* the next work that runs fails */
    void (*lose)(void);              /* every callback answers BP_ERR_DEVICE_LOST; nothing runs */
    void (*no_events)(uint32_t status); /* event_create answers that; 0: it works */
    void (*no_record)(uint32_t status); /* event_record answers that; 0: it works */
    void (*no_peers)(uint32_t status);  /* copy_peer answers that; 0: it works */
    void (*mute_events)(uint32_t on);   /* events say nothing of work that has failed (1), or do */
};

const struct gated_control *gated_control(void);

#endif
