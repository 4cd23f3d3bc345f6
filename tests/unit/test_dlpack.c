/* SPDX-License-Identifier: Apache-2.0 */
/* test_dlpack.c: tests the export and import of DLPack tensors. tests/dlpack does the same with
 * numpy, which supports the older form only. */
#include "fixture.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

/* A tensor of another library: an array with a deleter that counts its calls. */
struct lender {
    struct bp_dlpack_managed managed;
    int64_t shape[9], strides[9];
    int calls;
};

static void count_call(struct bp_dlpack_managed *managed)
{
    ((struct lender *)managed->manager_ctx)->calls++;
}

static void lender_init(struct lender *l, void *data, uint8_t code, uint8_t bits)
{
    *l = (struct lender){.shape = {2, 3}, .strides = {3, 1}};
    l->managed = (struct bp_dlpack_managed){
        .version = {1, 0},
        .manager_ctx = l,
        .deleter = count_call,
        .tensor = {data, {1, 0}, 2, {code, bits, 1}, l->shape, l->strides, 0},
    };
}

Test(dlpack, export_describes_the_tensor)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 2, SHAPE(3, 4), NULL), *s, *v;
    struct bp_dlpack_managed *m = NULL;
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_slice(t, 1, 1, 4, 2, &s));
    OK(bp_tensor_transpose(s, NULL, &v));
    OK(bp_tensor_get_info(v, &info));
    OK(bp_tensor_to_dlpack(v, &m));
    cr_assert(m->version.major == 1 && m->flags == 0);
    cr_assert(m->tensor.device.type == 1 && m->tensor.device.id == 0 && m->tensor.ndim == 2);
    cr_assert(m->tensor.dtype.code == BP_DLPACK_FLOAT && m->tensor.dtype.bits == 32 &&
              m->tensor.dtype.lanes == 1);
    cr_assert(m->tensor.shape[0] == 2 && m->tensor.shape[1] == 3);
    cr_assert(m->tensor.strides[0] == 2 && m->tensor.strides[1] == 4);
    cr_assert_eq((char *)m->tensor.data + m->tensor.byte_offset, (char *)info.data);
    m->deleter(m);
    bp_tensor_destroy(t);
    bp_tensor_destroy(s);
    bp_tensor_destroy(v);
    fixture_finish(&f);
}

struct round {
    uint32_t dtype;
    uint8_t code, bits;
};

Test(dlpack, each_dtype_there_and_back)
{
    static const struct round rounds[] = {
        {BP_BOOL, 6, 8},  {BP_I8, 0, 8},   {BP_I16, 0, 16}, {BP_I32, 0, 32}, {BP_I64, 0, 64},
        {BP_U8, 1, 8},    {BP_U16, 1, 16}, {BP_U32, 1, 32}, {BP_U64, 1, 64}, {BP_F16, 2, 16},
        {BP_BF16, 4, 16}, {BP_F32, 2, 32}, {BP_F64, 2, 64}, {BP_C64, 5, 64}, {BP_C128, 5, 128},
        {BP_F8E4M3, 10, 8}, {BP_F8E4M3FNUZ, 11, 8}, {BP_F8E5M2, 12, 8}, {BP_F8E5M2FNUZ, 13, 8},
        {BP_F8E8M0, 14, 8}};
    struct fixture f = fixture_init();
    struct bp_tensor *t, *back;
    struct bp_dlpack_managed *m = NULL;
    struct bp_dlpack_legacy *old = NULL;

    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        struct bp_tensor_info a = {.size = sizeof a}, b = a;
        t = tensor_of(&f, rounds[i].dtype, 1, SHAPE(3), NULL);
        OK(bp_tensor_to_dlpack(t, &m));
        cr_assert(m->tensor.dtype.code == rounds[i].code && m->tensor.dtype.bits == rounds[i].bits);
        OK(bp_tensor_from_dlpack(f.device, m, &back));
        OK(bp_tensor_get_info(t, &a));
        OK(bp_tensor_get_info(back, &b));
        cr_assert(a.dtype == b.dtype && a.data == b.data && a.bytes == b.bytes);
        bp_tensor_destroy(back);
        OK(bp_tensor_to_dlpack_legacy(t, &old));
        OK(bp_tensor_from_dlpack_legacy(f.device, old, &back));
        bp_tensor_destroy(t);
        OK(bp_tensor_get_info(back, &b));
        cr_assert(a.dtype == b.dtype && a.data == b.data);
        bp_tensor_destroy(back);
    }
    fixture_finish(&f);
}

/* Formats of 8 bits, or of fewer, that no dtype has: kDLFloat8_e3m4, e4m3, e4m3b11fnuz,
 * kDLFloat6_e2m3fn, e3m2fn and kDLFloat4_e2m1fn; and a format of 8 bits with another number. */
Test(dlpack, other_small_formats_are_refused)
{
    static const uint8_t wrong[][2] = {{7, 8}, {8, 8}, {9, 8}, {15, 6}, {16, 6}, {17, 4}, {18, 8},
                                       {15, 8}, {10, 16}, {2, 8}};
    struct fixture f = fixture_init();
    unsigned char data[6] = {0};
    struct bp_tensor *t = NULL;
    struct lender l;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lender_init(&l, data, wrong[i][0], wrong[i][1]);
        FAILS(BP_ERR_UNSUPPORTED, "holds none such",
              bp_tensor_from_dlpack(f.device, &l.managed, &t));
        cr_assert_eq(l.calls, 0);
    }
    fixture_finish(&f);
}

Test(dlpack, import_shares_memory_and_gives_it_back_once)
{
    struct fixture f = fixture_init();
    float data[6] = {1, 2, 3, 4, 5, 6};
    struct bp_tensor *t, *column;
    struct lender l;

    lender_init(&l, data, BP_DLPACK_FLOAT, 32);
    l.managed.tensor.byte_offset = 4;
    l.shape[0] = 2, l.shape[1] = 2;
    OK(bp_tensor_from_dlpack(f.device, &l.managed, &t));
    expect_bytes(&f, t, F32(2, 3, 5, 6), 16);
    data[1] = 20;
    expect_bytes(&f, t, F32(20, 3, 5, 6), 16);
    OK(bp_tensor_slice(t, 1, 1, 2, 1, &column));
    OK(bp_tensor_write(f.stream, column, F32(30, 60), 8));
    cr_assert(data[0] == 1 && data[2] == 30 && data[5] == 60 && data[3] == 4);
    bp_tensor_destroy(t);
    cr_assert_eq(l.calls, 0, "a view has it still");
    bp_tensor_destroy(column);
    cr_assert_eq(l.calls, 1);
    l.managed.tensor.strides = NULL; /* row-major; and without a deleter */
    l.managed.tensor.byte_offset = 0;
    l.managed.deleter = NULL;
    OK(bp_tensor_from_dlpack(f.device, &l.managed, &t));
    expect_bytes(&f, t, F32(1, 20, 30, 4), 16);
    bp_tensor_destroy(t);
    cr_assert_eq(l.calls, 1);
    fixture_finish(&f);
}

Test(dlpack, empty_and_scalar)
{
    struct fixture f = fixture_init();
    double one = 2.5;
    struct bp_dlpack_managed *m;
    struct bp_tensor *t;
    struct lender l;

    lender_init(&l, NULL, BP_DLPACK_FLOAT, 64);
    l.shape[0] = 0;
    OK(bp_tensor_from_dlpack(f.device, &l.managed, &t));
    OK(bp_tensor_write(f.stream, t, NULL, 0));
    OK(bp_tensor_to_dlpack(t, &m));
    cr_assert(!m->tensor.data && m->tensor.shape[0] == 0 && m->tensor.shape[1] == 3);
    bp_tensor_destroy(t);
    cr_assert_eq(l.calls, 0);
    m->deleter(m);
    cr_assert_eq(l.calls, 1);
    lender_init(&l, &one, BP_DLPACK_FLOAT, 64);
    l.managed.tensor.ndim = 0;
    l.managed.tensor.shape = l.managed.tensor.strides = NULL;
    OK(bp_tensor_from_dlpack(f.device, &l.managed, &t));
    expect_bytes(&f, t, F64(2.5), 8);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

/* Each of these mistakes leaves the memory to its owner. */
enum wrong {
    MAJOR,
    TYPE,
    ID,
    LANES,
    CODE,
    BITS,
    RANK,
    NO_RANK,
    NEGATIVE,
    VAST,
    NO_SHAPE,
    SHAPE_NEGATIVE,
    NO_DATA,
    WRAPS,
    BEYOND,
    NEARLY,
    MISALIGNED,
    WRONGS
};

static const char *make_wrong(struct lender *l, enum wrong wrong)
{
    struct bp_dlpack_tensor *t = &l->managed.tensor;

    switch (wrong) {
    case MAJOR: l->managed.version.major = 2; return "version is 2.0";
    case TYPE: t->device.type = 2; return "DLPack device 2:0";
    case ID: t->device.id = 1; return "DLPack device 1:1";
    case LANES: t->dtype.lanes = 4; return "4 lanes";
    case CODE: t->dtype.code = 3; return "code 3";
    case BITS: t->dtype.bits = 128; return "128 bits";
    case RANK: t->ndim = 9; return "ndim is 9";
    case NO_RANK: t->ndim = -1; return "ndim is -1";
    case NEGATIVE: l->strides[0] = -3; return "stride 0 is -3";
    case VAST: l->strides[0] = INT64_MAX; return "63 bits";
    case NO_SHAPE: t->shape = NULL; return "shape is NULL";
    case SHAPE_NEGATIVE: l->shape[1] = -1; return "extent 1 is -1";
    case NO_DATA: t->data = NULL; return "data is NULL";
    case WRAPS: t->byte_offset = (uint64_t)-16; return "past the end of all memory";
    case BEYOND: t->byte_offset = INT64_MAX - 7; return "past the end of all memory";
    case NEARLY: t->byte_offset = UINT64_MAX - (uintptr_t)t->data - 22; return "past the end";
    default: t->byte_offset = 1; return "multiple of 4";
    }
}

Test(dlpack, import_refuses_and_leaves_it_to_the_caller)
{
    struct fixture f = fixture_init();
    float data[8] = {0};
    struct bp_tensor *t = NULL;
    struct lender l;

    for (enum wrong wrong = MAJOR; wrong < WRONGS; wrong++) {
        enum bp_status status;
        const char *word;
        lender_init(&l, data, BP_DLPACK_FLOAT, 32);
        word = make_wrong(&l, wrong);
        status = bp_tensor_from_dlpack(f.device, &l.managed, &t);
        cr_assert_neq(status, BP_OK, "case %d", wrong);
        cr_assert(strstr(bp_error_message(), word), "case %d: '%s' does not say '%s'", wrong,
                  bp_error_message(), word);
        cr_assert(!t && l.calls == 0);
    }
    FAILS(BP_ERR_INVALID, "device", bp_tensor_from_dlpack(NULL, &l.managed, &t));
    FAILS(BP_ERR_INVALID, "managed or", bp_tensor_from_dlpack(f.device, NULL, &t));
    FAILS(BP_ERR_INVALID, "managed or", bp_tensor_from_dlpack(f.device, &l.managed, NULL));
    FAILS(BP_ERR_INVALID, "managed or", bp_tensor_from_dlpack_legacy(f.device, NULL, &t));
    FAILS(BP_ERR_INVALID, "tensor", bp_tensor_to_dlpack(NULL, NULL));
    fixture_finish(&f);
}

Test(dlpack, read_only_goes_both_ways)
{
    struct fixture f = fixture_init();
    float data[6] = {1, 2, 3, 4, 5, 6};
    struct bp_tensor *t;
    struct bp_dlpack_managed *m;
    struct bp_dlpack_legacy *old = NULL;
    struct lender l;

    lender_init(&l, data, BP_DLPACK_FLOAT, 32);
    l.managed.flags = BP_DLPACK_READ_ONLY;
    OK(bp_tensor_from_dlpack(f.device, &l.managed, &t));
    FAILS(BP_ERR_INVALID, "imported for reading only",
          bp_tensor_write(f.stream, t, data, sizeof data));
    OK(bp_tensor_to_dlpack(t, &m));
    cr_assert_eq(m->flags, BP_DLPACK_READ_ONLY);
    m->deleter(m);
    bp_tensor_destroy(t);
    t = tensor_of(&f, BP_F32, 1, SHAPE(6), data);
    OK(bp_tensor_freeze(t));
    OK(bp_tensor_to_dlpack(t, &m));
    cr_assert_eq(m->flags, BP_DLPACK_READ_ONLY);
    m->deleter(m);
    FAILS(BP_ERR_UNSUPPORTED, "read only", bp_tensor_to_dlpack_legacy(t, &old));
    cr_assert_null(old);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

/* Two tensors over one memory, which the core has imported independently. */
Test(dlpack, copies_see_that_imports_overlap)
{
    struct fixture f = fixture_init();
    double data[28] = {0};
    struct bp_tensor *a, *b;
    struct lender l, m;

    for (int distance = 0; distance < 10; distance++) {
        lender_init(&l, data, BP_DLPACK_COMPLEX, 128);
        lender_init(&m, data + distance, BP_DLPACK_COMPLEX, 128);
        l.shape[0] = m.shape[0] = 4, l.shape[1] = m.shape[1] = 1;
        l.strides[0] = m.strides[0] = 2; /* 16 bytes of gap behind each element */
        OK(bp_tensor_from_dlpack(f.device, &l.managed, &a));
        OK(bp_tensor_from_dlpack(f.device, &m.managed, &b));
        if (distance % 4 == 2) OK(bp_tensor_copy(f.stream, a, b));
        else FAILS(BP_ERR_INVALID, "overlap", bp_tensor_copy(f.stream, a, b));
        bp_tensor_destroy(a);
        bp_tensor_destroy(b);
    }
    fixture_finish(&f);
}

/* Imports whose work a queue holds, and calls that notice that the work has ended. */
struct pending {
    struct fixture f;
    struct bp_stream *held; /* an asynchronous stream */
    struct bp_event *event; /* recorded behind the work */
    struct bp_tensor *t;
    struct lender *lender, spare;
    uint32_t n;             /* the number of lenders */
    sem_t go, ended;
    float host[6], data[6];
};

static void wait_to_go(void *p, enum bp_status status)
{
    (void)status;
    sem_wait(&((struct pending *)p)->go);
}

/* Runs as a callback of the stream: on this thread, no call runs deleters incidentally. */
static void look_from_inside(void *p, enum bp_status status)
{
    struct pending *pending = p;

    (void)status;
    OK(bp_event_query(pending->event));
    for (uint32_t i = 0; i < pending->n; i++) cr_assert_eq(pending->lender[i].calls, 0);
    sem_post(&pending->ended);
}

/* Creates n imports, which work has used and the app has destroyed. The work has ended, and no call
 * has noticed yet. */
static void pending_begin(struct pending *p, uint32_t n)
{
    struct bp_tensor *x, *y = NULL;

    p->n = n;
    p->lender = calloc(n, sizeof *p->lender);
    sem_init(&p->go, 0, 0);
    sem_init(&p->ended, 0, 0);
    OK(bp_stream_create_with(p->f.device, BP_STREAM_ASYNC, &p->held));
    OK(bp_event_create(p->f.device, &p->event));
    OK(bp_stream_callback(p->held, wait_to_go, p));
    for (uint32_t i = 0; i < n; i++) {
        lender_init(&p->lender[i], p->data, BP_DLPACK_FLOAT, 32);
        OK(bp_tensor_from_dlpack(p->f.device, &p->lender[i].managed, &x));
        OK(bp_op_add(bp_stream_scope(p->held), x, x, &y));
        bp_tensor_destroy(x);
        bp_tensor_destroy(y), y = NULL;
    }
    OK(bp_event_record(p->event, p->held));
    OK(bp_stream_callback(p->held, look_from_inside, p));
    sem_post(&p->go);
    sem_wait(&p->ended);
}

static uint32_t calls_of(const struct pending *p)
{
    uint32_t calls = 0;

    for (uint32_t i = 0; i < p->n; i++) calls += (uint32_t)p->lender[i].calls;
    return calls;
}

static void pending_end(struct pending *p)
{
    bp_event_destroy(p->event);
    bp_stream_destroy(p->held);
    OK(bp_device_synchronize(p->f.device));
    cr_assert_eq(calls_of(p), p->n, "each is called once");
    free(p->lender);
}

static void by_event_wait(struct pending *p)
{
    OK(bp_event_wait(p->event, UINT64_MAX));
}

static void by_event_query(struct pending *p)
{
    OK(bp_event_query(p->event));
}

static void by_read(struct pending *p)
{
    OK(bp_tensor_read(p->f.stream, p->t, p->host, sizeof p->host));
}

static void by_write(struct pending *p)
{
    OK(bp_tensor_write(p->f.stream, p->t, p->host, sizeof p->host));
}

static void by_copy(struct pending *p)
{
    OK(bp_tensor_copy(p->f.stream, p->t, p->t));
}

static void by_import(struct pending *p)
{
    struct bp_tensor *x;

    lender_init(&p->spare, p->data, BP_DLPACK_FLOAT, 32);
    OK(bp_tensor_from_dlpack(p->f.device, &p->spare.managed, &x));
    bp_tensor_destroy(x);
}

static void by_trim(struct pending *p)
{
    OK(bp_device_trim(p->f.device));
}

static void by_memory(struct pending *p)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(p->f.device, &stats));
}

static void by_stream(struct pending *p)
{
    OK(bp_stream_synchronize(p->f.stream));
}

static const struct {
    const char *name;
    void (*look)(struct pending *p);
    bool all;
} ways[] = {
    {"event_wait", by_event_wait, false}, {"event_query", by_event_query, false},
    {"read", by_read, false},             {"write", by_write, false},
    {"copy", by_copy, false},             {"import", by_import, false},
    {"memory", by_memory, false},         {"trim", by_trim, true},
    {"synchronize", by_stream, true},
};

Test(dlpack, deleters_are_called_when_the_work_has_ended)
{
    struct pending p = {.f = fixture_init()};

    p.t = tensor_of(&p.f, BP_F32, 2, SHAPE(2, 3), p.data);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        pending_begin(&p, 3);
        cr_assert_eq(calls_of(&p), 0);
        ways[i].look(&p);
        cr_assert_eq(calls_of(&p), 3, "%s: %u of 3 were called", ways[i].name, calls_of(&p));
        pending_end(&p);
    }
    bp_tensor_destroy(p.t);
    fixture_finish(&p.f);
}

/* Each call checks only a few imports, but all get their turn: also behind work that has not
 * ended. */
Test(dlpack, deleters_are_called_behind_work_that_has_not_ended)
{
    struct pending p = {.f = fixture_init()}, more = {.n = 0};

    p.t = tensor_of(&p.f, BP_F32, 2, SHAPE(2, 3), p.data);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        uint32_t looks = 0;
        static struct lender stuck[200];
        struct bp_stream *busy;
        struct bp_tensor *x, *y = NULL;
        OK(bp_stream_create_with(p.f.device, BP_STREAM_ASYNC, &busy));
        sem_init(&more.go, 0, 0);
        OK(bp_stream_callback(busy, wait_to_go, &more));
        for (int k = 0; k < 200; k++) {
            lender_init(&stuck[k], p.data, BP_DLPACK_FLOAT, 32);
            OK(bp_tensor_from_dlpack(p.f.device, &stuck[k].managed, &x));
            OK(bp_op_add(bp_stream_scope(busy), x, x, &y));
            bp_tensor_destroy(x);
            bp_tensor_destroy(y), y = NULL;
        }
        pending_begin(&p, 3);
        for (; calls_of(&p) < 3 && looks < 9; looks++) ways[i].look(&p);
        cr_assert_eq(calls_of(&p), 3, "%s: %u of 3 were called", ways[i].name, calls_of(&p));
        cr_assert(looks == 1 || !ways[i].all, "%s looks at all", ways[i].name);
        for (int k = 0; k < 200; k++) cr_assert_eq(stuck[k].calls, 0);
        sem_post(&more.go);
        OK(bp_stream_synchronize(busy));
        for (int k = 0; k < 200; k++) cr_assert_eq(stuck[k].calls, 1);
        bp_stream_destroy(busy);
        pending_end(&p);
    }
    bp_tensor_destroy(p.t);
    fixture_finish(&p.f);
}

static void *delete_it(void *managed)
{
    struct bp_dlpack_managed *m = managed;

    m->deleter(m);
    return NULL;
}

/* The tensor, its device and its core are destroyed; the memory exists until another thread calls
 * the deleter. */
Test(dlpack, export_outlives_tensor_device_and_core)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3));
    struct bp_dlpack_managed *m;
    pthread_t thread;

    OK(bp_tensor_to_dlpack(t, &m));
    bp_tensor_destroy(t);
    fixture_finish(&f);
    cr_assert_eq(((float *)m->tensor.data)[2], 3);
    cr_assert_eq(m->tensor.shape[0], 3);
    cr_assert_eq(pthread_create(&thread, NULL, delete_it, m), 0);
    pthread_join(thread, NULL);
}

Test(dlpack, only_the_device_of_the_type)
{
    struct fixture f;
    float data[6] = {0};
    struct bp_tensor *t, *none = NULL;
    struct bp_dlpack_managed *m;
    struct bp_tensor_options o = {.size = sizeof o, .dtype = BP_F32, .space = BP_SPACE_PINNED};
    struct lender l;
    uint32_t index;

    OK(bp_core_create(NULL, &f.core));
    OK(bp_core_load_path(f.core, TEMPLATE, &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    t = tensor_of(&f, BP_F32, 1, SHAPE(3), NULL);
    FAILS(BP_ERR_UNSUPPORTED, "template:0 has no DLPack type", bp_tensor_to_dlpack(t, &m));
    lender_init(&l, data, BP_DLPACK_FLOAT, 32);
    FAILS(BP_ERR_UNSUPPORTED, "no DLPack type", bp_tensor_from_dlpack(f.device, &l.managed, &none));
    bp_tensor_destroy(t);
    fixture_finish(&f);
    f = fixture_init();
    OK(bp_tensor_create_with(f.device, &o, &t));
    FAILS(BP_ERR_UNSUPPORTED, "memory space 1", bp_tensor_to_dlpack(t, &m));
    bp_tensor_destroy(t);
    fixture_finish(&f);
    cr_assert(!none && l.calls == 0);
}
