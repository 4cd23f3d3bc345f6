/* SPDX-License-Identifier: Apache-2.0 */
/* transpose_planes.c: finds copies between a few planes and groups of one element of each plane,
 * and divides them into blocks. With streaming stores a block is written to a buffer first. */
#include "transpose.h"
#include "cpu.h"
#include "stream_store.h"

cpu_transpose_few cpu_transpose_join_i8, cpu_transpose_join_i16, cpu_transpose_join_i32,
    cpu_transpose_join_i64, cpu_transpose_split_i8, cpu_transpose_split_i16,
    cpu_transpose_split_i32, cpu_transpose_split_i64;
cpu_transpose_few cpu_transpose_join_f16_avx2, cpu_transpose_join_f32_avx2,
    cpu_transpose_split_f16_avx2, cpu_transpose_split_f32_avx2; /* of any type of this size */

/* FEW_MOST: more planes are transposed in tiles. BLOCK: groups that a task moves; BUFFERED: those
 * that it writes to the buffer at a time. */
enum { FEW_MOST = 7, BLOCK = 8192, BUFFERED = 512, BUFFER = BUFFERED * FEW_MOST * 8 };

struct planes {
    const struct cpu *self;
    struct walk outer; /* the axes that are neither that of planes nor that of groups */
    cpu_transpose_few *move;
    char *to;
    const char *from;
    int64_t size;   /* bytes of an element */
    int64_t groups; /* their number */
    int64_t plane;  /* the distance of planes in elements */
    int64_t blocks; /* tasks for one place of the outer axes */
    int few;        /* planes */
    bool joins;     /* planes become groups */
    bool nt;        /* as in stream_store.h */
};

static cpu_transpose_few *planes_mover(const struct cpu *self, int size, bool joins)
{
    cpu_transpose_few *const join[] = {
        [1] = cpu_transpose_join_i8, [2] = cpu_transpose_join_i16, [4] = cpu_transpose_join_i32,
        [8] = cpu_transpose_join_i64};
    cpu_transpose_few *const split[] = {
        [1] = cpu_transpose_split_i8, [2] = cpu_transpose_split_i16, [4] = cpu_transpose_split_i32,
        [8] = cpu_transpose_split_i64};

#ifdef CPU_AVX2
    if (self->isa >= CPU_ISA_AVX2 && size == 2)
        return joins ? cpu_transpose_join_f16_avx2 : cpu_transpose_split_f16_avx2;
    if (self->isa >= CPU_ISA_AVX2 && size == 4)
        return joins ? cpu_transpose_join_f32_avx2 : cpu_transpose_split_f32_avx2;
#else
    (void)self;
#endif
    return joins ? join[size] : split[size];
}

/* Moves n groups, at most BUFFERED, through a buffer. */
static void planes_stream(const struct planes *p, char *to, const char *from, int64_t n)
{
    _Alignas(NT_LINE) char buffer[BUFFER];
    size_t bytes = (size_t)(n * p->size);

    if (p->joins) {
        p->move(buffer, from, p->plane, n, p->few);
        cpu_copy_nt(p->self, to, buffer, bytes * (size_t)p->few);
        return;
    }
    p->move(buffer, from, BUFFERED, n, p->few);
    for (int c = 0; c < p->few; c++)
        cpu_copy_nt(p->self, to + c * p->plane * p->size, buffer + c * BUFFERED * p->size, bytes);
}

static void planes_task(void *arg, int64_t number)
{
    const struct planes *p = arg;
    int64_t at[WALK_VIEWS], group = number % p->blocks * BLOCK;
    int64_t n = p->groups - group < BLOCK ? p->groups - group : BLOCK;
    int64_t whole = p->few * p->size; /* bytes of a group */
    char *to = p->to;
    const char *from = p->from;

    walk_offset(&p->outer, number / p->blocks, at);
    to += (at[0] + group * (p->joins ? p->few : 1)) * p->size;
    from += (at[1] + group * (p->joins ? 1 : p->few)) * p->size;
    if (!p->nt) {
        p->move(to, from, p->plane, n, p->few);
        return;
    }
    for (int64_t i = 0; i < n; i += BUFFERED)
        planes_stream(p, to + i * (p->joins ? whole : p->size),
                      from + i * (p->joins ? p->size : whole), n - i < BUFFERED ? n - i : BUFFERED);
    nt_fence();
}

/* The axis of planes, whose elements are next to each other in view `view`, where the axis `group`
 * has gaps of just these; -1: there is none. */
static int planes_axis(const struct walk *walk, int group, int view)
{
    for (int a = 0; a < walk->rank; a++)
        if (a != group && walk->stride[view][a] == 1 && walk->shape[a] >= 2 &&
            walk->shape[a] <= FEW_MOST && walk->stride[view][group] == walk->shape[a])
            return a;
    return -1;
}

/* Finds the axis of groups, along which the elements of a plane are next to each other. */
static bool planes_find(struct planes *p, const struct walk *walk, int *out_group, int *out_plane)
{
    for (int view = 0; view < 2; view++)
        for (int a = 0; a < walk->rank; a++) {
            if (walk->stride[1 - view][a] != 1) continue;
            *out_group = a;
            *out_plane = planes_axis(walk, a, view);
            p->joins = view == 0;
            if (*out_plane >= 0) return true;
        }
    return false;
}

bool cpu_transpose_planes(const struct walk *walk, const struct bp_launch *launch, void *to,
                          const void *from, int size)
{
    struct planes p = {.self = launch->self, .to = to, .from = from, .size = size,
                       .nt = nt_pays(walk->count * size)};
    int group, plane;

    if (size > 8 || !planes_find(&p, walk, &group, &plane)) return false;
    p.groups = walk->shape[group];
    p.few = (int)walk->shape[plane];
    p.plane = walk->stride[p.joins ? 1 : 0][plane];
    p.move = planes_mover(p.self, size, p.joins);
    p.blocks = (p.groups + BLOCK - 1) / BLOCK;
    walk_init(&p.outer, 0, NULL);
    for (int a = 0; a < walk->rank; a++) {
        int64_t stride[2] = {walk->stride[0][a], walk->stride[1][a]};
        if (a != group && a != plane) walk_append(&p.outer, walk->shape[a], stride, 2);
    }
    cpu_team_run(planes_task, &p, p.outer.count * p.blocks,
                 cpu_team_width(launch, (double)walk->count));
    return true;
}
