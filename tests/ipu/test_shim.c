/* SPDX-License-Identifier: Apache-2.0 */
/* test_shim.c: calls the shim from C, without the plugin, on the stand-in for Poplar: right calls,
 * and wrong ones, which must return a code and a message: an exception of C++ that left the shim
 * would end this program. Prints TAP. */
#include "../../plugins/ipu/shim/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 4,
    X = 0, /* numbers of tensors: sum = x + weight; next = param - rate sum */
    PARAM,
    RATE,
    WEIGHT,
    SUM,
    NEXT,
    UNUSED,
    TENSORS
};

/* A graph that is right, until a case changes it. */
struct bench {
    struct bp_ipu_graph graph;
    struct bp_ipu_tensor tensor[TENSORS];
    struct bp_ipu_node node[2];
    int32_t in[3], after[3], out[1], sum_in[2], sum_out[2], sgd_in[4], sgd_out[1];
    float weight[N];
    uint32_t device;
};

struct saved {
    char data[1 << 16];
    uint64_t size;
    int status;
};

static int number, failures;

static void shim_check(int good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failures += !good;
    if (!good) printf("# the last message is '%s'\n", bp_ipu_error());
}

/* Whether a call failed with this code, and a message that has these words. */
static int shim_refuses(int code, int expected, const char *words)
{
    if (code != expected) printf("# code %d, expected %d\n", code, expected);
    return code == expected && bp_ipu_error()[0] && strstr(bp_ipu_error(), words);
}

static uint32_t bench_cancels(void *ctx, double done)
{
    (void)ctx;
    (void)done;
    return 1;
}

static void bench_init(struct bench *b)
{
    memset(b, 0, sizeof *b);
    for (int i = 0; i < TENSORS; i++)
        b->tensor[i] = (struct bp_ipu_tensor){.rank = i != RATE, .shape = {N}};
    b->tensor[X].kind = b->tensor[RATE].kind = BP_IPU_INPUT;
    b->tensor[PARAM].kind = BP_IPU_KEPT;
    b->tensor[WEIGHT].kind = BP_IPU_WEIGHT;
    b->tensor[WEIGHT].data = b->weight;
    for (int i = 0; i < N; i++) b->weight[i] = 10;
    memcpy(b->sum_in, (int32_t[]){X, WEIGHT}, sizeof b->sum_in);
    memcpy(b->sum_out, (int32_t[]){SUM, UNUSED}, sizeof b->sum_out);
    memcpy(b->sgd_in, (int32_t[]){PARAM, SUM, RATE, X}, sizeof b->sgd_in);
    b->sgd_out[0] = NEXT;
    memcpy(b->in, (int32_t[]){X, PARAM, RATE}, sizeof b->in);
    memcpy(b->after, (int32_t[]){BP_IPU_NONE, NEXT, BP_IPU_NONE}, sizeof b->after);
    b->out[0] = SUM;
    b->node[0] = (struct bp_ipu_node){BP_IPU_OP_add,   2, 1, BP_IPU_NUMBERS, b->sum_in, b->sum_out,
                                      .name = "node 0"};
    b->node[1] = (struct bp_ipu_node){BP_IPU_OP_sgd,   4, 1, BP_IPU_NUMBERS, b->sgd_in, b->sgd_out,
                                      .name = "node 1"};
    b->graph = (struct bp_ipu_graph){
        sizeof b->graph, b->tensor,           b->node,     b->in,     b->out,
        b->after,        .n_tensor = TENSORS, .n_node = 2, .n_in = 3, .n_out = 1};
}

/* The first node becomes lp_normalize. */
static void bench_normalize(struct bench *b, int32_t in, int64_t axis, double order)
{
    b->node[0].op = BP_IPU_OP_lp_normalize;
    b->node[0].n_in = 1;
    b->node[0].number[0] = axis;
    b->node[0].real[0] = order;
    b->sum_in[0] = in;
}

/* ---- wrong graphs ---- */

enum graph_case {
#define CASE(name, code, words, change) CASE_##name,
#include "shim_cases.def"
    CASES
};

static const struct {
    const char *name, *words;
    int code;
} cases[] = {
#define CASE(name, code, words, change) {#name, words, BP_IPU_##code},
#include "shim_cases.def"
};

static void bench_change(struct bench *b, enum graph_case which)
{
    switch (which) {
#define CASE(name, code, words, change) \
    case CASE_##name: \
        change; \
        break;
#include "shim_cases.def"
    case CASES: break;
    }
}

static void wrong_graphs(struct bp_ipu *ipu)
{
    for (int i = 0; i < CASES; i++) {
        struct bp_ipu_program *program = NULL;
        struct bench b;
        int code;
        bench_init(&b);
        bench_change(&b, (enum graph_case)i);
        code = bp_ipu_compile(ipu, b.device, &b.graph, &program);
        shim_check(shim_refuses(code, cases[i].code, cases[i].words) && !program, cases[i].name);
    }
}

/* ---- runs ---- */

static int bench_run(struct bp_ipu_program *program, float x, float *param, float *sum)
{
    const float in[N] = {x, x, x, x}, rate = 0.5f;
    const void *from[] = {in, param, &rate};
    void *to[] = {sum};
    struct bp_ipu_launch launch = {sizeof launch, from, NULL, to, 3, 1};

    return bp_ipu_run(program, &launch);
}

/* Runs twice, and takes the parameter, which is 1 first. */
static int runs_right(struct bp_ipu_program *program, float weight)
{
    float param[N] = {1, 1, 1, 1}, sum[N], first = 2 + weight, second = 3 + weight;

    if (bench_run(program, 2, param, sum) || sum[N - 1] != first) return 0;
    if (bench_run(program, 3, param, sum) || sum[N - 1] != second || param[0] != 1) return 0;
    return !bp_ipu_state(program, 1, 0, param) && param[N - 1] == 1 - (first + second) / 2;
}

static int saved_write(void *ctx, const void *data, uint64_t size)
{
    struct saved *s = ctx;

    if (s->status || size > sizeof s->data) return s->status ? s->status : 1;
    memcpy(s->data, data, size);
    s->size = size;
    return 0;
}

static void copies_of_a_program(struct bp_ipu *ipu, struct bp_ipu_program *program)
{
    static struct saved saved;
    struct bp_ipu_program *made = NULL;
    struct bench b;
    int status = 0;

    bench_init(&b);
    for (int i = 0; i < N; i++) b.weight[i] = 20;
    shim_check(!bp_ipu_share(program, &b.graph, &made) && runs_right(made, 20) &&
                   runs_right(program, 10),
               "a program shares code, and has its own weights");
    bp_ipu_destroy(made);
    made = NULL;
    shim_check(!bp_ipu_save(program, &saved, saved_write, &status) && saved.size &&
                   !bp_ipu_restore(ipu, 0, &b.graph, saved.data, saved.size, &made) &&
                   runs_right(made, 20),
               "a saved program runs with the weights of the graph");
    bp_ipu_destroy(made);
    made = NULL;
    saved.status = 7;
    shim_check(bp_ipu_save(program, &saved, saved_write, &status) && status == 7,
               "another status of write ends save");
    shim_check(shim_refuses(bp_ipu_restore(ipu, 0, &b.graph, saved.data, saved.size / 2, &made),
                            BP_IPU_STALE, "no executable"),
               "half of the bytes are refused");
    shim_check(shim_refuses(bp_ipu_restore(ipu, 0, &b.graph, "none", 4, &made), BP_IPU_STALE,
                            "no executable"),
               "other bytes are refused");
    b.tensor[WEIGHT].kind = BP_IPU_RESULT;
    shim_check(
        shim_refuses(bp_ipu_share(program, &b.graph, &made), BP_IPU_STALE, "no executable") &&
            !made,
        "a graph without the weight is refused");
}

static void wrong_runs(struct bp_ipu_program *program)
{
    struct bp_ipu_launch launch = {.size = sizeof launch, .n_in = 2, .n_out = 1};
    float value[N];

    shim_check(shim_refuses(bp_ipu_run(program, &launch), BP_IPU_UNSUPPORTED, "number of pointers"),
               "a run with another number of inputs is refused");
    shim_check(shim_refuses(bp_ipu_state(program, 0, 0, value), BP_IPU_UNSUPPORTED, "not updated"),
               "an input that is not updated has no state");
    shim_check(shim_refuses(bp_ipu_state(program, 99, 0, value), BP_IPU_UNSUPPORTED, "not updated"),
               "an input that does not exist has no state");
}

int main(void)
{
    struct bp_ipu_facts facts = {.size = sizeof facts};
    struct bp_ipu_program *program = NULL;
    struct bp_ipu *ipu = NULL;
    struct bench b;

    shim_check(bp_ipu_version() == BP_IPU_SHIM_VERSION, "the version is the header's");
    shim_check(shim_refuses(bp_ipu_open(9, &ipu), BP_IPU_UNSUPPORTED, "no such target") && !ipu,
               "an unknown target is refused");
    if (bp_ipu_open(BP_IPU_HARDWARE, &ipu)) return 1;
    shim_check(bp_ipu_device_count(ipu) == 1, "there is one device");
    shim_check(!bp_ipu_device_info(ipu, 0, &facts) && facts.tiles == 1472, "the device has tiles");
    shim_check(shim_refuses(bp_ipu_device_info(ipu, 1, &facts), BP_IPU_FAILED, ""),
               "a device that does not exist is refused");
    wrong_graphs(ipu);
    bench_init(&b);
    shim_check(!bp_ipu_compile(ipu, 0, &b.graph, &program) && runs_right(program, 10),
               "after all wrong graphs, the right one runs");
    if (!program) return 1;
    wrong_runs(program);
    copies_of_a_program(ipu, program);
    bp_ipu_destroy(program);
    bp_ipu_close(ipu);
    printf("1..%d\n", number);
    return failures > 0;
}
