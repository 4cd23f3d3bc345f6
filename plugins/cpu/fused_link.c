/* SPDX-License-Identifier: Apache-2.0 */
/* fused_link.c: joins instructions of `fused` to chains: cheap operators, each of which is the only
 * reader of the result before it (fused_chain.c). */
#include "fused.h"
#include "kernels.h"
#include <dialect/portable.h>
#include <string.h>

#define CHAINS(level, number) \
    CHAIN(f32, level, number) \
    CHAIN(f64, level, number)
#ifdef CPU_AVX2
#define CHAINS_AVX2 CHAINS(_avx2, CPU_ISA_AVX2)
#else
#define CHAINS_AVX2
#endif
#ifdef CPU_AVX512
#define CHAINS_AVX512 CHAINS(_avx512, CPU_ISA_AVX512)
#else
#define CHAINS_AVX512
#endif

#define CHAIN(type, level, number) cpu_chain cpu_fused_chain_##type##level;
CHAINS(, CPU_ISA_PORTABLE) CHAINS_AVX2 CHAINS_AVX512
#undef CHAIN

static cpu_chain *const chains[3][PORTABLE_TYPES_COUNT] = {
#define CHAIN(type, level, number) [number][TYPE_##type] = cpu_fused_chain_##type##level,
    CHAINS(, CPU_ISA_PORTABLE) CHAINS_AVX2 CHAINS_AVX512
#undef CHAIN
};

/* The links of each operator: with the value before it as first operand, and as second one. */
static const struct {
    const char *name;
    int n, first, second;
} cheap[] = {
    {"add", 2, FUSED_ADD, FUSED_ADD},         {"sub", 2, FUSED_SUB, FUSED_SUB_FROM},
    {"mul", 2, FUSED_MUL, FUSED_MUL},         {"maximum", 2, FUSED_MAX, FUSED_MAX_OF},
    {"minimum", 2, FUSED_MIN, FUSED_MIN_OF},  {"abs", 1, FUSED_ABS, 0},
    {"neg", 1, FUSED_NEG, 0},                 {"square", 1, FUSED_SQUARE, 0},
    {"relu", 1, FUSED_RELU, 0},               {"clip", 1, FUSED_CLIP, 0},
    {"scale", 1, FUSED_SCALE, 0},
};

/* Fills the link of an instruction whose operand number k is the value of the chain. Returns false
 * if the operator is not cheap. other: the place of the other operand. */
static bool link_init(const struct bp_fused_step *step, int k, struct fused_link *link,
                      uint8_t *other)
{
    for (size_t i = 0; i < sizeof cheap / sizeof *cheap; i++) {
        if (strcmp(cheap[i].name, step->op)) continue;
        *link = (struct fused_link){.op = k ? cheap[i].second : cheap[i].first,
                                    .a = step->number[0],
                                    .b = step->number[1]};
        *other = cheap[i].n == 2 ? step->from[1 - k] : BP_FUSED_NONE;
        return true;
    }
    return false;
}

/* Whether the result of instruction i, in a register, is read by the next one only, and there as
 * one operand, whose number is returned in *out_k. */
static bool link_follows(const struct bp_fused_step *step, int n, int i, int *out_k)
{
    int place = step[i].to, reads = 0;

    if (place < BP_FUSED_R || place >= BP_FUSED_Y || i + 1 == n) return false;
    for (int k = 0; k < BP_FUSED_FROM; k++)
        if (step[i + 1].from[k] == place) reads++, *out_k = k;
    if (reads != 1 || *out_k > 1) return false;
    for (int later = i + 1; later < n; later++) {
        for (int k = 0; k < BP_FUSED_FROM && later > i + 1; k++)
            if (step[later].from[k] == place) return false;
        if (step[later].to == place) return true;
    }
    return true;
}

/* Adds the chain that begins with instruction i to the plan; returns the number of its
 * instructions, 0 for less than two. */
static int chain_add(struct fused_plan *p, const struct bp_fused_step *step, int n, int i)
{
    struct fused_call *c = &p->call[p->n_call];
    int length = 0, k = 0;

    *c = (struct fused_call){.link = p->n_link};
    while (i + length < n) {
        const struct bp_fused_step *s = &step[i + length];
        int at = p->n_link + length;
        if (!link_init(s, k, &p->link[at], &p->other[at])) break;
        c->to = s->to;
        if (!length++) c->from[0] = s->from[0];
        if (!link_follows(step, n, i + length - 1, &k)) break;
    }
    /* a register that only a longer chain would keep */
    if (length < 2) return 0;
    c->n_link = length;
    p->n_link += length;
    p->n_call++;
    return length;
}

int cpu_fused_add_chain(struct fused_plan *p, const struct bp_fused_step *step, int n, int i,
                        int level, uint32_t dtype)
{
    p->chain = chains[level][portable_type(dtype)];
    return p->chain ? chain_add(p, step, n, i) : 0;
}

void cpu_fused_number_link(struct fused_link *link, double number)
{
    static const int with[] = {
        [FUSED_ADD] = FUSED_ADD_NUMBER,     [FUSED_SUB] = FUSED_SUB_NUMBER,
        [FUSED_MUL] = FUSED_MUL_NUMBER,     [FUSED_SUB_FROM] = FUSED_SUB_FROM_NUMBER,
        [FUSED_MAX] = FUSED_MAX_NUMBER,     [FUSED_MAX_OF] = FUSED_MAX_OF_NUMBER,
        [FUSED_MIN] = FUSED_MIN_NUMBER,     [FUSED_MIN_OF] = FUSED_MIN_OF_NUMBER};
    bool most = link->op == FUSED_MIN || link->op == FUSED_MIN_OF;
    bool selects = link->op >= FUSED_MAX && link->op <= FUSED_MIN_OF;

    link->op = with[link->op];
    if (selects && (number < 0 || number > 0)) link->op = most ? FUSED_AT_MOST : FUSED_AT_LEAST;
    link->a = number;
    link->w = NULL;
}
