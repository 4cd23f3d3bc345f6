/* SPDX-License-Identifier: Apache-2.0 */
/* cnnl.h: declares how kernel rows call Cambricon's library of operators, CNNL: its functions, its
 * numbers, its handles, and plans.
 *
 * A row is a kernel row of Backplane and a function that builds a plan: a list of calls of CNNL,
 * with the descriptors of their tensors, and with the places of intermediate results and workspaces
 * in the launch's workspace. A launch makes the calls. */
#ifndef MLU_CNNL_H
#define MLU_CNNL_H

#include "mlu.h"
#ifndef MLU_NUMBERS_FILE
#define MLU_NUMBERS_FILE "numbers.h"
#endif
#include MLU_NUMBERS_FILE

struct cnnl_calls {
#define CALL(result, name, parameters) result(*name) parameters;
#define CALL_OR_NONE CALL
#include "cnnl.def"
};

/* The functions by number, FN_cnnlAbs. */
enum mlu_fn {
#define CALL(result, name, parameters) FN_##name,
#define CALL_OR_NONE CALL
#include "cnnl.def"
    MLU_FNS,
    FN_NONE = MLU_FNS
};

/* The numbers of CNNL: MLU_CNNL_DTYPE_HALF; MLU_OPEN: not known. And their indices, by which rows
 * name the numbers that they need: NUM_CNNL_DTYPE_HALF. */
enum {
    MLU_OPEN = -1000000
};
enum {
#define NUMBER(name, number) MLU_##name = number,
    MLU_NUMBERS(NUMBER, MLU_OPEN)
#undef NUMBER
};
/* Facts are among them: FACT_BATCH_NORM_SAVES_INVERSE. */
enum mlu_number {
    NUM_NONE,
#define NUMBER(name, number) NUM_##name,
    MLU_NUMBERS(NUMBER, MLU_OPEN)
#undef NUMBER
#define FACT(name, value, needed, statement) FACT_##name,
    MLU_FACTS(FACT, MLU_OPEN, true, false)
#undef FACT
        MLU_NUMBERS_COUNT
};

/* cnnl.c: opens the library when the first row needs it. cnnl: its functions, NULL where the
 * library lacks one. mlu_cnnl_open: a failure has no message; mlu_cnnl_why has the reason. */
extern union mlu_cnnl_table {
    void *function[MLU_FNS];
    struct cnnl_calls call;
} mlu_cnnl;
enum bp_status mlu_cnnl_open(void);
const char *mlu_cnnl_why(void);
const char *mlu_cnnl_path(void);
const char *mlu_cnnl_name(enum mlu_fn fn);
/* Checks a status of CNNL. If CNNL reports a failure because the device is lost, the runtime's code
 * is reported. */
enum bp_status mlu_cnnl_check(const struct mlu_device *device, const char *function, int status);

/* Creates the stream's handle, if it has none. */
enum bp_status mlu_cnnl_provide(struct mlu_stream *stream);
void mlu_cnnl_stream_finish(struct mlu_stream *stream);
/* The device's handle for sizes of workspaces. The caller has it alone until it calls
 * mlu_cnnl_plan_end, also after a failure. */
enum bp_status mlu_cnnl_plan_begin(struct mlu_device *device, void **out_handle);
void mlu_cnnl_plan_end(struct mlu_device *device);
void mlu_cnnl_device_finish(struct mlu_device *device);

/* Where a tensor of a call is. */
enum mlu_from {
    MLU_ABSENT, /* no descriptor and no address */
    MLU_IN,     /* `at` is the number of an input of the launch, all groups flat */
    MLU_OUT,
    MLU_WORK, /* in the workspace, at `offset` */
    MLU_WORD, /* the fault word of the launch */
    MLU_OWN,  /* a constant of the plan, `at` */
};

struct mlu_tensor {
    uint8_t from; /* enum mlu_from */
    uint8_t dtype, rank;
    uint16_t at;
    uint64_t offset; /* bytes from its first byte */
    int64_t shape[8];
    void *desc; /* owned by the plan */
};

/* A launch of a plan. */
struct mlu_run {
    const struct bp_launch *launch;
    void *handle;
    uint32_t *word;
    void *const *own; /* the plan's constants */
};

/* One call. `call` passes the tensors and values to `function`. */
struct mlu_step {
    struct mlu_step *next;
    int (*call)(const struct mlu_run *run, const struct mlu_step *step);
    enum mlu_fn fn;
    uint64_t work_at, work; /* CNNL's workspace: its place and size */
    void *desc, *second;    /* the operator's descriptor, and one more, owned */
    enum mlu_fn desc_destroy, second_destroy;
    int64_t i[4];
    double f[2];
    _Alignas(8) unsigned char value[8];
    int ints[24];
    uint32_t n;
    struct mlu_tensor t[];
};
const void *mlu_desc(const struct mlu_step *step, uint32_t i);
void *mlu_address(const struct mlu_run *run, const struct mlu_step *step, uint32_t i);
void *mlu_work(const struct mlu_run *run, const struct mlu_step *step); /* NULL: no bytes */

/* plan.c: a plan that is being made. A failure stays in `status`, and later calls do nothing. */
struct mlu_row;
struct mlu_plan;
struct mlu_build {
    struct mlu_device *device;
    void *handle; /* for sizes of workspaces */
    const struct bp_prep *prep;
    const struct mlu_row *row;
    struct mlu_plan *plan;
    enum bp_status status;
    uint64_t work; /* bytes of the launch's workspace so far */
};

/* CNNL's number of a dtype of Backplane; MLU_OPEN: none. And the bytes of an element. */
int mlu_dtype(uint32_t dtype);
uint32_t mlu_bytes(uint32_t dtype);
/* A tensor of the call in its own shape, which has at least one axis; absent if the tensor is. */
struct mlu_tensor mlu_in(const struct mlu_build *b, uint32_t i);
struct mlu_tensor mlu_out(const struct mlu_build *b, uint32_t i);
bool mlu_has_out(const struct mlu_build *b, uint32_t i);
/* An intermediate result. */
struct mlu_tensor mlu_temporary(struct mlu_build *b, uint32_t dtype, uint32_t rank,
                                const int64_t *shape);
/* The fault word, an i32; the plan's launches take one. */
struct mlu_tensor mlu_word(struct mlu_build *b);
/* A constant in memory of the plan, with these values. */
struct mlu_tensor mlu_constant(struct mlu_build *b, uint32_t dtype, uint32_t rank,
                               const int64_t *shape, const void *values);
/* The same memory with another shape: shaped; with ones in front up to this rank: ranked; as one
 * axis: flat. */
struct mlu_tensor mlu_shaped(struct mlu_tensor t, uint32_t rank, const int64_t *shape);
struct mlu_tensor mlu_ranked(struct mlu_tensor t, uint32_t rank);
struct mlu_tensor mlu_flat(struct mlu_tensor t);
int64_t mlu_count(const struct mlu_tensor *t);

/* Refuses the configuration. */
void mlu_refuse(struct mlu_build *b);
/* Adds a call with n tensors, whose descriptors have the layout ARRAY. Returns NULL after a
 * failure. */
struct mlu_step *mlu_step(struct mlu_build *b, enum mlu_fn fn,
                          int (*call)(const struct mlu_run *, const struct mlu_step *), uint32_t n,
                          const struct mlu_tensor *t);
/* The same, where tensors of four axes, with NDHWC those of five, are images of another layout. */
struct mlu_step *mlu_step_images(struct mlu_build *b, enum mlu_fn fn,
                                 int (*call)(const struct mlu_run *, const struct mlu_step *),
                                 uint32_t n, const struct mlu_tensor *t, int layout);
/* Reserves the workspace whose size the function `fn` has reported with `status`. */
void mlu_step_reserve(struct mlu_build *b, struct mlu_step *step, enum mlu_fn fn, int status,
                      size_t size);
/* Checks the status of a function that makes a part of the plan. */
bool mlu_build_check(struct mlu_build *b, enum mlu_fn fn, int status);

#define MLU_TENSORS(...) \
    sizeof((const struct mlu_tensor[]){__VA_ARGS__}) / sizeof(struct mlu_tensor), \
        (const struct mlu_tensor[]) \
    { \
        __VA_ARGS__ \
    }

/* A row's own part, beside its kernel row: an element of a table parallel to the kernel rows. */
struct mlu_row {
    void (*build)(struct mlu_build *b);
    enum mlu_fn fn;         /* the function of the family that the row calls */
    enum mlu_fn size_fn;    /* the function that reports its workspace, or FN_NONE */
    enum mlu_number number; /* an argument of the function, or NUM_NONE */
    enum mlu_fn also[20];   /* further functions that the row calls; ends with FN_NONE */
};

/* steps.c: steps that several rows need. */
/* z = whether x and y are equal. */
void mlu_step_equal(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                    struct mlu_tensor z);
/* z = x where `which` is true, else y. */
void mlu_step_where(struct mlu_build *b, struct mlu_tensor which, struct mlu_tensor x,
                    struct mlu_tensor y, struct mlu_tensor z);
void mlu_step_unary(struct mlu_build *b, enum mlu_fn fn, struct mlu_tensor x, struct mlu_tensor y);
void mlu_step_fill(struct mlu_build *b, double value, struct mlu_tensor y);
/* The same with the value of the attribute at this offset, which may change with each launch. */
void mlu_step_full(struct mlu_build *b, size_t offset, struct mlu_tensor y);
/* Joins 1 to MLU_PARTS tensors of three axes along the middle one. */
enum {
    MLU_PARTS = 64
};
void mlu_step_concat(struct mlu_build *b, uint32_t n, const struct mlu_tensor *part,
                     struct mlu_tensor y);
/* y[i, j, ..] = x[.., i, .., j]: axis k of y is axis order[k] of x. */
void mlu_step_transpose(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                        const int *order);
/* The elements first, first + step, .. of an axis: n of them; step is above 0. */
struct mlu_cut {
    int64_t first, n, step;
};
/* y = the elements that the cuts, one for each axis of x, leave. */
void mlu_step_cut(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                  const struct mlu_cut *cut);
/* y = x / by, which broadcast; of floats. */
void mlu_step_divide(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor by,
                     struct mlu_tensor y);
/* index.c. Of tensors of three axes, along the middle one, with good indices:
 * y[:, i] = x[:, index[i]]; y = x, and source[:, i] is added to y[:, index[i]]. */
void mlu_step_select(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor index,
                     struct mlu_tensor y);
void mlu_step_index_add(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor index,
                        struct mlu_tensor source, struct mlu_tensor y);
/* y = least where x < least, most where x > most, else x; of i32. */
void mlu_step_clip(struct mlu_build *b, struct mlu_tensor x, int32_t least, int32_t most,
                   struct mlu_tensor y);
/* A number as CNNL takes it for a tensor of this dtype, converted as `cast` does. */
void mlu_value(unsigned char out[8], uint32_t dtype, double value);

/* guard.c: checks indices, because CNNL does not: an index outside of least to most marks the fault
 * word. Returns the indices in one axis, wrapped or clamped into 0 to n - 1. */
struct mlu_tensor mlu_guard(struct mlu_build *b, struct mlu_tensor index, int64_t n, bool wraps);

/* rows.c: the table of rows. */
extern const struct bp_kernels mlu_kernels;

#endif
