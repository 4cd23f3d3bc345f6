/* SPDX-License-Identifier: Apache-2.0 */
/* lower.h: declares how values of the IR and the launches of prepared calls are added to a
 * schedule. */
#ifndef BP_LOWER_H
#define BP_LOWER_H

#include "schedule.h"

struct bp_lowering {
    struct bp_schedule *schedule;
    struct bp_tuner *tuner;    /* or NULL */
    struct bp_invocation *inv; /* of the current node */
    bool tuned;                /* the tuner has chosen the row of the current node */
    uint32_t node, next;       /* its number, and that of the node after it */
    uint32_t in[BP_FLAT_MAX], out[BP_FLAT_MAX]; /* its values, of the schedule */
    uint32_t *number;          /* of each value of the IR: the schedule's value, or BP_NO_VALUE */
    uint32_t *last_read;       /* of each root of the IR: the last node that reads its memory;
                                  BP_NO_VALUE: none does */
    uint32_t room_value, room_launch, room_number;
};

enum bp_status bp_lower_no_memory(void);

/* lower_launch.c. Sets the type of a value with its own memory; the type has no address. */
void bp_lower_set_type(const struct bp_schedule *schedule, struct bp_scheduled_value *value,
                       const struct bp_view *type);

/* Adds a value with its own memory in the arena. type NULL: it has no type yet. */
enum bp_status bp_lower_add_value(struct bp_lowering *lowering, const struct bp_view *type,
                                  uint32_t *out_value);

/* Places a value in the memory of value `of`, offset bytes after its first element. */
void bp_lower_set_view(const struct bp_schedule *schedule, uint32_t value, uint32_t of,
                       uint64_t offset);

/* Adds the launches of a prepared call. in, out: the numbers of its values, flat in declared
 * order. */
enum bp_status bp_lower_add_call(struct bp_lowering *lowering, struct bp_prepared *prepared,
                                 const uint32_t *in, const uint32_t *out);

#endif
