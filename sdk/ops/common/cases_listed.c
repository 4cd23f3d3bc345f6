/* SPDX-License-Identifier: Apache-2.0 */
/* cases_listed.c: builds cases from lines of a table. */
#include "cases_listed.h"
#include <backplane/call.h>
#include <string.h>

/* Sets attribute a from the next value of its kind in the line. */
static void listed_cases_set(struct kernel_case *made, const struct bp_attr *a, uint32_t dtype,
                             const struct listed_case *line, int *list, int *number, int *real)
{
    char *at = (char *)&made->attrs + a->offset;
    int64_t as_number = dtype;
    struct bp_dims d;

    switch (a->kind) {
    case BP_ATTR_DIMS:
        d = case_dims(made, *list, line->list[*list].n, line->list[*list].at);
        memcpy(at, &d, sizeof d);
        ++*list;
        break;
    case BP_ATTR_F64: memcpy(at, &line->real[(*real)++], sizeof *line->real); break;
    case BP_ATTR_DTYPE: memcpy(at, &as_number, sizeof as_number); break;
    default:
        memcpy(at, &line->number[*number], a->count * sizeof *line->number);
        *number += (int)a->count;
        break;
    }
}

struct kernel_case *listed_begin(const struct case_builder *builder, const struct listed_case *line)
{
    const struct bp_opinfo *op = bp_opinfo_find(builder->op->name);
    struct kernel_case *made = case_begin(builder, line->shapes);
    int list = 0, number = 0, real = 0;

    for (uint32_t i = 0; i < op->n_attr; i++)
        listed_cases_set(made, &op->attr[i], builder->dtype[0], line, &list, &number, &real);
    made->quick = line->quick;
    return made;
}

bool listed_has_host(const struct listed_case *line)
{
    const struct bp_opinfo *op = bp_opinfo_find(line->op);
    int list = 0;

    for (uint32_t i = 0; i < op->n_attr; i++) {
        bool host = false;
        for (uint32_t p = 0; p < op->n_in; p++)
            host |= op->in[p].kind == BP_PORT_HOST && !strcmp(op->in[p].name, op->attr[i].name);
        if (op->attr[i].kind == BP_ATTR_DIMS) host = host && line->list[list++].n;
        if (host) return true;
    }
    return false;
}

bool listed_is_wide(const struct listed_case *line)
{
    return !strcmp(line->variant, "width") || !strcmp(line->variant, "rank8");
}

bool listed_repeats(const struct case_builder *builder, const struct listed_case *line)
{
    uint64_t all = BP_M(BOOL) | BP_M(F16) | BP_M(F32) | BP_M(F64) | BP_M(C128);

    return !line->quick && !line->layouts && !(all >> builder->dtype[0] & 1);
}
