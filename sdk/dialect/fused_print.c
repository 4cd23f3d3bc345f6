/* SPDX-License-Identifier: Apache-2.0 */
/* fused_print.c: prints the code of `fused` as a kernel in the dialect. Place p of an element is
 * the variable v<p>; operand k lies at q<k>. */
#include "fused_print.h"
#include <stdlib.h>

/* A kernel that is being printed. */
struct printer {
    struct text text;
    const struct fused_walk *walk;
    enum portable_type type;
    const struct fused_device *device;
    struct fused_instruction list[BP_FUSED_STEPS];
    uint32_t n;
    const int64_t *code;
};

static const char *place_type(const struct printer *p, uint32_t place)
{
    return bp_fused_is_truth(p->code, place) ? "u8" : "elem";
}

static int fused_place(const struct fused_walk *w, int operand)
{
    return operand < w->n_out ? BP_FUSED_Y + operand : BP_FUSED_X + operand - w->n_out;
}

/* Prints the kernel's head. The struct of extents and strides exists if an operand needs them. */
static void print_begin(struct text *t, const struct fused_walk *w, bool has_buffers)
{
    if (w->rank)
        portable_text_add(t, "struct fused_args { i64 shape[%d], stride[%d][%d]; };\n", w->rank,
                          w->n, w->rank);
    portable_text_add(t, "KERNEL(bp_fused)(%si64 count%s", w->rank ? "struct fused_args a, " : "",
                      has_buffers ? ", i64 run" : "");
    for (int k = 0; k < w->n; k++) {
        portable_text_add(t, ", GLOBAL %selem *%s%d", k < w->n_out ? "" : "const ",
                          has_buffers ? "p" : "q", k);
        if (has_buffers) portable_text_add(t, ", i64 at%d", k);
    }
    portable_text_add(t, ")\n{\n");
    if (!has_buffers) portable_text_add(t, "const i64 run = 1;\n");
    for (int k = 0; k < w->n; k++) {
        const char *of = k < w->n_out ? "" : "const ";
        if (has_buffers)
            portable_text_add(
                t, "GLOBAL %selem *q%d = (GLOBAL %selem *)((GLOBAL const char *)p%d + at%d);\n", of,
                k, of, k, k);
        if (w->kind[k] == FUSED_SCALAR) portable_text_add(t, "elem s%d = *q%d;\n", k, k);
    }
}

/* Prints the offsets at which a row begins: the element's index on each axis. */
static void print_offsets(struct text *t, const struct fused_walk *w)
{
    if (!w->rank) return;
    portable_text_add(t, "i64 rest = begin, above, index;\n");
    for (int k = 0; k < w->n; k++)
        if (fused_has_strides(w, k)) portable_text_add(t, "i64 o%d = 0;\n", k);
    for (int a = w->rank - 1; a >= 0; a--) {
        if (a) portable_text_add(t, "above = fused_divide(rest, a.shape[%d], count);\n", a);
        else portable_text_add(t, "above = 0;\n");
        portable_text_add(t, "index = rest - above * a.shape[%d];\nrest = above;\n", a);
        if (a == w->rank - 1)
            portable_text_add(t, "n = n < a.shape[%d] - index ? n : a.shape[%d] - index;\n", a, a);
        for (int k = 0; k < w->n; k++)
            if (fused_has_strides(w, k))
                portable_text_add(t, "o%d += index * a.stride[%d][%d];\n", k, k, a);
    }
    for (int k = 0; k < w->n; k++) {
        if (w->kind[k] == FUSED_HELD) portable_text_add(t, "elem h%d = q%d[o%d];\n", k, k, k);
        if (w->kind[k] == FUSED_STRIDED)
            portable_text_add(t, "i64 t%d = a.stride[%d][%d];\n", k, k, w->rank - 1);
    }
}

/* Prints the element j of a row of an operand. */
static void print_element(struct text *t, const struct fused_walk *w, int k)
{
    switch (w->kind[k]) {
    case FUSED_DENSE: portable_text_add(t, "q%d[begin + j]", k); break;
    case FUSED_SCALAR: portable_text_add(t, "s%d", k); break;
    case FUSED_ROW: portable_text_add(t, "q%d[o%d + j]", k, k); break;
    case FUSED_HELD: portable_text_add(t, "h%d", k); break;
    case FUSED_STRIDED: portable_text_add(t, "q%d[o%d + j * t%d]", k, k, k); break;
    }
}

/* ---- parts ---- */

/* Returns the end of the part that begins with an instruction. A lane of a GPU computes all
 * instructions for an element. A processor's compiler vectorises a loop with one long formula, or
 * with several short ones, and rarely others; so a kernel has several loops, which are parts, over
 * a tile. */
static uint32_t part_end(const struct printer *p, uint32_t first)
{
    uint32_t end = first + 1;

    if (!p->device->is_processor) return p->n;
    if (p->type == TYPE_f16 || !portable_fused_is_short(&p->list[first])) return end;
    while (end < p->n && portable_fused_is_short(&p->list[end])) end++;
    return end;
}

/* Whether an instruction from number i on reads the value that a place has before. */
static bool place_is_read(const struct printer *p, uint32_t i, int place)
{
    for (; i < p->n; i++) {
        for (int k = 0; k < BP_FUSED_FROM; k++)
            if (p->list[i].step.from[k] == place) return true;
        if (p->list[i].step.to == place) return false;
    }
    return false;
}

/* Prints variables for the places of a part, with the values that the part reads. Values of other
 * parts lie in tiles c<p>. Returns a bit for each place that the part writes. */
static uint64_t part_begin(struct printer *p, uint32_t first, uint32_t end)
{
    struct text *t = &p->text;
    uint64_t has = 0, writes = 0;

    for (uint32_t i = first; i < end; i++) {
        const struct bp_fused_step *step = &p->list[i].step;
        for (int k = 0; k < BP_FUSED_FROM && step->from[k] != BP_FUSED_NONE; k++) {
            int from = step->from[k];
            if (has >> from & 1) continue;
            has |= UINT64_C(1) << from;
            portable_text_add(t, "%s v%d = ", place_type(p, (uint32_t)from), from);
            if (from < BP_FUSED_R) print_element(t, p->walk, p->walk->n_out + from);
            else portable_text_add(t, "c%d[j]", from);
            portable_text_add(t, ";\n");
        }
        if (!(has >> step->to & 1))
            portable_text_add(t, "%s v%d;\n", place_type(p, step->to), step->to);
        has |= UINT64_C(1) << step->to;
        writes |= UINT64_C(1) << step->to;
    }
    return writes;
}

/* Prints where the results of a part are stored. A result of the call may have the memory of an
 * input, so all are stored by the last part. */
static void part_store(struct printer *p, uint32_t end, uint64_t writes)
{
    struct text *t = &p->text;

    for (int place = BP_FUSED_R; place < BP_FUSED_PLACES && end < p->n; place++)
        if (writes >> place & 1 && (place >= BP_FUSED_Y || place_is_read(p, end, place)))
            portable_text_add(t, "c%d[j] = v%d;\n", place, place);
    for (int k = 0; k < p->walk->n_out && end == p->n; k++) {
        int place = fused_place(p->walk, k);
        print_element(t, p->walk, k);
        if (writes >> place & 1) portable_text_add(t, " = v%d;\n", place);
        else portable_text_add(t, " = c%d[j];\n", place);
    }
}

static void print_parts(struct printer *p)
{
    for (uint32_t first = 0, end; first < p->n; first = end) {
        uint64_t writes;
        end = part_end(p, first);
        portable_text_add(&p->text, "for (i64 j = 0; j < n; j++) {\n");
        writes = part_begin(p, first, end);
        for (uint32_t i = first; i < end; i++)
            portable_fused_print_step(&p->text, &p->list[i], p->type == TYPE_f64);
        part_store(p, end, writes);
        portable_text_add(&p->text, "}\n");
    }
}

/* Prints the loops over a lane's elements, of which a GPU's lane has one at a time, and the tiles
 * between parts. */
static void print_loops(struct printer *p)
{
    struct text *t = &p->text;
    bool tiled = part_end(p, 0) < p->n;

    for (uint32_t place = BP_FUSED_R; place < BP_FUSED_PLACES && tiled; place++)
        for (uint32_t i = 0; i < p->n; i++)
            if (p->list[i].step.to == place) {
                portable_text_add(t, "%s c%u[%d];\n", place_type(p, place), place, FUSED_TILE);
                break;
            }
    portable_text_add(t,
                      "for (i64 first = (TEAM * LANES + LANE) * run; first < count; "
                      "first += TEAMS * LANES * run) {\n"
                      "i64 end = count - first < run ? count : first + run;\n"
                      "for (i64 begin = first, n; begin < end; begin += n) {\nn = end - begin;\n");
    if (tiled) portable_text_add(t, "n = n < %d ? n : %d;\n", FUSED_TILE, FUSED_TILE);
    print_offsets(t, p->walk);
    print_parts(p);
    portable_text_add(t, "}\n}\n");
}

char *portable_fused_print(struct bp_dims code, enum portable_type type,
                           const struct fused_device *device, const struct fused_walk *walk,
                           double *out_work)
{
    struct printer p = {.walk = walk,
                        .type = type,
                        .device = device,
                        .n = bp_fused_n_step(code.n),
                        .code = code.at};

    *out_work = 0;
    for (uint32_t i = 0; i < p.n; i++) {
        if (!portable_fused_step(code, i, device->has_f64, &p.list[i])) return NULL;
        *out_work += portable_fused_cost(&p.list[i]);
    }
    print_begin(&p.text, walk, device->has_buffers);
    print_loops(&p);
    portable_text_add(&p.text, "}\n");
    if (!p.text.failed) return p.text.at;
    free(p.text.at);
    return NULL;
}
