/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_world.c: sets up the things that wrong calls are made with: two devices and one object
 * of each kind. */
#include "mistakes.h"

#include <stdlib.h>
#include <unistd.h>

static uint64_t stranger[64] = {0x1234567812345678};
static const float ones[6] = {1, 1, 1, 1, 1, 1}, twos[6] = {2, 2, 2, 2, 2, 2};

const char *mistakes_kind(enum thing thing)
{
    static const char *const name[] = {
        [T_CORE] = "core",         [T_DEVICE] = "device",   [T_STREAM] = "stream",
        [T_EVENT] = "event",       [T_TENSOR] = "tensor",   [T_SYMBOL] = "symbolic tensor",
        [T_PREPARED] = "prepared", [T_GRAPH] = "graph",     [T_GENERATOR] = "generator",
        [T_BUFFER] = "buffer",   [T_PROGRAM] = "program", [T_TEMPLATE] = "template",
        [T_STORE] = "store",       [T_COMM] = "communicator",
        [T_PROFILER] = "profiler", [T_PROFILE] = "profile",
        [T_STRANGER] = "stranger", [T_OTHER_TENSOR] = "tensor of another device",
    };

    return thing < COUNT(name) && name[thing] ? name[thing] : "NULL";
}

/* Returns the index of the plugin for a device kind. */
static uint32_t plugin_of(struct bp_core *core, const char *kind)
{
    struct bp_plugin_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        OK(bp_core_plugin(core, i, &info));
        if (!strcmp(info.kind, kind)) return i;
    }
    cr_assert_fail("there is no plugin %s", kind);
    return 0;
}

static void make_devices(struct world *w)
{
    uint32_t index;

    w->f = fixture_init();
    w->thing[T_CORE].p = w->f.core;
    w->thing[T_DEVICE].p = w->f.device;
    w->thing[T_STREAM].p = w->f.stream;
    w->thing[T_PLUGIN].u = plugin_of(w->f.core, "cpu");
    OK(bp_core_load_path(w->f.core, TEMPLATE, &index));
    OK(bp_device_create_at(w->f.core, index, 0, (struct bp_device **)&w->thing[T_OTHER_DEVICE].p));
    OK(bp_stream_create(w->thing[T_OTHER_DEVICE].p,
                        (struct bp_stream **)&w->thing[T_OTHER_STREAM].p));
}

static void make_events(struct world *w)
{
    static const struct {
        enum thing event, device, stream;
    } all[] = {
        {T_EVENT, T_DEVICE, T_STREAM},
        {T_OTHER_EVENT, T_OTHER_DEVICE, T_OTHER_STREAM},
        {T_NEW_EVENT, T_DEVICE, T_NONE},
    };

    for (size_t i = 0; i < COUNT(all); i++) {
        struct bp_event *event;
        OK(bp_event_create(w->thing[all[i].device].p, &event));
        if (all[i].stream) OK(bp_event_record(event, w->thing[all[i].stream].p));
        w->thing[all[i].event].p = event;
    }
}

static void make_tensors(struct world *w)
{
    struct bp_tensor *t, *made = NULL;

    w->thing[T_TENSOR].p = tensor_of(&w->f, BP_F32, 2, SHAPE(2, 3), ones);
    w->thing[T_SPARE].p = tensor_of(&w->f, BP_F32, 2, SHAPE(2, 3), ones);
    w->thing[T_FROZEN].p = tensor_of(&w->f, BP_F32, 2, SHAPE(2, 3), ones);
    OK(bp_tensor_freeze(w->thing[T_FROZEN].p));
    w->thing[T_SHORT].p = tensor_of(&w->f, BP_F32, 1, SHAPE(4), ones);
    w->thing[T_DOUBLE].p = tensor_of(&w->f, BP_F64, 2, SHAPE(2, 3), NULL);
    w->thing[T_EMPTY].p = tensor_of(&w->f, BP_F32, 1, SHAPE(0), NULL);
    OK(bp_tensor_view(w->thing[T_SPARE].p, 0, 2, SHAPE(2, 3), SHAPE(0, 1), &t));
    w->thing[T_REPEATED].p = t;
    OK(bp_tensor_create(w->thing[T_OTHER_DEVICE].p, BP_F32, 2, SHAPE(2, 3), &t));
    OK(bp_tensor_write(w->thing[T_OTHER_STREAM].p, t, twos, sizeof twos));
    w->thing[T_OTHER_TENSOR].p = t;
    /* The template has no kernel row for sum: creates an entry of bp_device_fallback. */
    OK(bp_op_sum(bp_stream_scope(w->thing[T_OTHER_STREAM].p), t, NULL, &made));
    bp_tensor_destroy(made);
}

static struct bp_graph *make_graph(struct world *w, int64_t rows, struct bp_tensor **out_x)
{
    struct bp_graph *graph;
    struct bp_tensor *z = NULL;

    OK(bp_graph_create(w->f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(rows, 3), out_x));
    OK(bp_op_add(bp_graph_scope(graph), *out_x, *out_x, &z));
    OK(bp_graph_output(graph, z, "z"));
    bp_tensor_destroy(z);
    return graph;
}

static struct bp_template *make_template(struct world *w)
{
    static const int64_t rows[] = {2, 3, 4};
    struct bp_program *program[COUNT(rows)];
    struct bp_template *made;

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bp_tensor *x;
        struct bp_graph *graph = make_graph(w, rows[i], &x);
        OK(bp_program_create(graph, w->f.device, &program[i]));
        bp_tensor_destroy(x);
        bp_graph_destroy(graph);
    }
    OK(bp_template_create(program, rows, COUNT(rows), &made));
    for (size_t i = 0; i < COUNT(rows); i++) bp_program_destroy(program[i]);
    return made;
}

static void make_profile(struct world *w)
{
    char path[] = "/tmp/bp_mistakes_XXXXXX";
    int fd = mkstemp(path);

    cr_assert(fd >= 0);
    close(fd);
    OK(bp_profiler_start(NULL, (struct bp_profiler **)&w->thing[T_PROFILER].p));
    bp_mark("an event");
    OK(bp_profiler_stop(w->thing[T_PROFILER].p));
    OK(bp_profiler_save(w->thing[T_PROFILER].p, path));
    OK(bp_profile_open(path, (struct bp_profile **)&w->thing[T_PROFILE].p));
    unlink(path);
}

struct world mistakes_world(void)
{
    struct world w = {.thing[T_STRANGER].p = stranger};
    struct bp_tensor *x, *pair[2];
    struct bp_comm_id id;
    struct bp_arg in[2] = {{&pair[0], 1}, {&pair[1], 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    setenv("BP_FALLBACK", "allow", 1); /* otherwise each fallback is logged */
    make_devices(&w);
    make_events(&w);
    make_tensors(&w);
    w.thing[T_GRAPH].p = make_graph(&w, 2, &x);
    w.thing[T_SYMBOL].p = x;
    w.thing[T_SCRATCH].p = make_graph(&w, 2, &x);
    w.thing[T_SCRATCH_SYMBOL].p = x;
    OK(bp_buffer_create(w.f.device, NULL, BP_SPACE_DEVICE, 64,
                        (struct bp_buffer **)&w.thing[T_BUFFER].p));
    OK(bp_program_create(w.thing[T_GRAPH].p, w.f.device,
                         (struct bp_program **)&w.thing[T_PROGRAM].p));
    w.thing[T_TEMPLATE].p = make_template(&w);
    OK(bp_store_serve(NULL, (struct bp_store **)&w.thing[T_STORE].p));
    OK(bp_comm_id_create(&id));
    OK(bp_comm_create(w.f.device, &id, 0, 1, (struct bp_comm **)&w.thing[T_COMM].p));
    OK(bp_generator_create(1, (struct bp_generator **)&w.thing[T_GENERATOR].p));
    make_profile(&w);
    pair[0] = pair[1] = w.thing[T_TENSOR].p;
    OK(bp_prepared_create(w.f.device, &call, NULL, 0,
                          (struct bp_prepared **)&w.thing[T_PREPARED].p));
    return w;
}

void mistakes_check_world(struct world *w, const char *function, const char *what)
{
    struct bp_tensor *sum = NULL, *t = w->thing[T_TENSOR].p;
    float got[6] = {0};

    cr_expect(bp_op_add(w->f.scope, t, t, &sum) == BP_OK &&
                  bp_tensor_read(w->f.stream, sum, got, sizeof got) == BP_OK &&
                  !memcmp(got, twos, sizeof got),
              "%s, %s: afterwards 1 + 1 is not 2: %s", function, what, bp_error_message());
    bp_tensor_destroy(sum);
    memset(got, 0, sizeof got);
    cr_expect(bp_tensor_read(w->thing[T_OTHER_STREAM].p, w->thing[T_OTHER_TENSOR].p, got,
                             sizeof got) == BP_OK &&
                  !memcmp(got, twos, sizeof got),
              "%s, %s: afterwards the other device does not answer: %s", function, what,
              bp_error_message());
}

void mistakes_world_finish(struct world *w)
{
    static const uint8_t tensors[] = {T_TENSOR, T_SYMBOL, T_OTHER_TENSOR, T_FROZEN,   T_SPARE,
                                      T_SHORT,  T_DOUBLE, T_EMPTY,        T_REPEATED,
                                      T_SCRATCH_SYMBOL};

    for (size_t i = 0; i < COUNT(tensors); i++) bp_tensor_destroy(w->thing[tensors[i]].p);
    bp_prepared_destroy(w->thing[T_PREPARED].p);
    bp_template_destroy(w->thing[T_TEMPLATE].p);
    bp_program_destroy(w->thing[T_PROGRAM].p);
    bp_graph_destroy(w->thing[T_GRAPH].p);
    bp_graph_destroy(w->thing[T_SCRATCH].p);
    bp_generator_destroy(w->thing[T_GENERATOR].p);
    bp_buffer_destroy(w->thing[T_BUFFER].p);
    bp_comm_destroy(w->thing[T_COMM].p);
    bp_profile_destroy(w->thing[T_PROFILE].p);
    bp_profiler_destroy(w->thing[T_PROFILER].p);
    bp_store_destroy(w->thing[T_STORE].p);
    bp_event_destroy(w->thing[T_EVENT].p);
    bp_event_destroy(w->thing[T_NEW_EVENT].p);
    bp_event_destroy(w->thing[T_OTHER_EVENT].p);
    bp_stream_destroy(w->thing[T_OTHER_STREAM].p);
    bp_device_destroy(w->thing[T_OTHER_DEVICE].p);
    fixture_finish(&w->f);
}
