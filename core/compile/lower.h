/* SPDX-License-Identifier: Apache-2.0 */
/* lower.h: declares how values of the IR and the launches of prepared calls are added to a
 * schedule. */
#ifndef BP_LOWER_H
#define BP_LOWER_H

#include "schedule.h"

/* lower_join.c: the memory of a concat whose inputs lie there. */
struct bp_join {
    uint32_t root; /* the schedule's value; BP_NO_VALUE: none yet */
    uint32_t axis;
    const struct bp_typed_view *type; /* of all of it */
    bool off; /* it is given up: its concats are lowered as other nodes */
};
/* Where a value of the IR lies in a join. */
struct bp_join_place {
    uint32_t join;  /* BP_NO_VALUE: in none */
    bool is_result; /* of a concat of the join */
    int64_t at;     /* of other values: the first index along the axis */
};

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
    struct bp_join *join;
    struct bp_join_place *place; /* of each value of the IR that is older than the lowering */
    uint32_t n_join, n_place;
};

/* In place of the last node that reads memory: an output of the graph lies there. */
#define BP_READ_BY_APP ((uint32_t)BP_NO_VALUE - 1)

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

/* Whether output i of a call may be placed over input number `input` of the flat list,
 * where no output before it lies, and which nothing reads later. */
bool bp_lower_may_place(const struct bp_lowering *lowering, const struct bp_node *node,
                        uint32_t input, uint32_t i, const uint32_t *out);

/* Adds the launches of a prepared call. in, out: the numbers of its values, flat in declared
 * order. */
enum bp_status bp_lower_add_call(struct bp_lowering *lowering, struct bp_prepared *prepared,
                                 const uint32_t *in, const uint32_t *out);

/* Adds a copy of a value into another one, which has its type and its place. */
enum bp_status bp_lower_assign(struct bp_lowering *lowering, uint32_t from, uint32_t to);

/* lower_engine.c: lowers a node that an engine runs, whose values are in `in` and `out`. */
enum bp_status bp_lower_engine(struct bp_lowering *lowering, const struct bp_node *node);

/* lower_join.c: finds the concats whose inputs can lie in the memory of the result. */
enum bp_status bp_joins_find(struct bp_lowering *lowering);
void bp_joins_finish(struct bp_lowering *lowering);
/* Lowers a concat of a join: copies the inputs that do not lie there yet. *out_done: false: it is
 * no such concat. */
enum bp_status bp_join_lower(struct bp_lowering *lowering, const struct bp_node *node,
                             bool *out_done);
/* Lets the node of a prepared call write into a join, if its result has a place there and its
 * kernel supports that. *prepared may become another call. */
enum bp_status bp_join_place(struct bp_lowering *lowering, const struct bp_node *node,
                             struct bp_prepared **prepared, bool *out_placed);
/* Whether elements do not lie side by side, in any order of the axes. */
bool bp_view_has_gaps(const struct bp_view *view);

#endif
