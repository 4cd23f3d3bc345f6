/* SPDX-License-Identifier: Apache-2.0 */
/* portable.h: runs portable kernels, in the same way for every plugin: this is the host's side, in
 * C.
 *
 * A family consists of its kernels in the dialect (kernel*.h of its folder in ops); of launch*.c,
 * one function for each operator (or group of operators) that computes from a launch the arguments
 * of an entry, and calls the plugin to run it; and of kernels*.def, the entries and the rows. A
 * plugin compiles the kernels for its device, once for each type of the family, compiles launch*.c,
 * includes the rows, and provides portable_run. */
#ifndef BP_DIALECT_PORTABLE_H
#define BP_DIALECT_PORTABLE_H

#include <backplane/attrs.h>
#include <backplane/kernel.h>

/* The families, and the entries of each family, which are counted from 0: ENTRY_<name> -
 * FIRST_<family>. */
enum portable_family {
#define FAMILY(family) FAMILY_##family,
#include "../ops/families.def"
    PORTABLE_FAMILIES,
};
enum {
#define FAMILY(family) FIRST_##family, BEFORE_##family = FIRST_##family - 1,
#define ENTRY(name) ENTRY_##name,
#include "../ops/families.def"
    PORTABLE_ENTRIES,
};

/* The types for which families are compiled: ELEM of elem.h. */
#define PORTABLE_TYPES(X) \
    X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64) X(f16) X(bf16) X(f32) X(f64) X(c64) \
    X(c128)
enum portable_type {
#define X(type) TYPE_##type,
    PORTABLE_TYPES(X)
#undef X
    PORTABLE_TYPES_COUNT,
};

/* portable_type returns the type that computes with numbers of a dtype (u8 for bool
 * and the f8 types), portable_move_type the type that moves elements of its size. */
enum portable_type portable_type(uint32_t dtype);
enum portable_type portable_move_type(uint32_t dtype);
int portable_type_bytes(enum portable_type type);
int portable_bytes(uint32_t dtype);

/* Describe entries: how many a family has; the name of one, and whether it is a team entry; and the
 * name of a type. */
int portable_entries(enum portable_family family);
int portable_entry_number(enum portable_family family, int entry); /* below PORTABLE_ENTRIES */
const char *portable_entry_name(enum portable_family family, int entry);
int portable_entry_is_team(enum portable_family family, int entry);
const char *portable_type_name(enum portable_type type);

enum { PORTABLE_OPERANDS = 12 };

/* The address of an operand: as in a view (bp_view), with its handle for devices that need it. */
struct portable_operand {
    void *data, *memory;
};

struct portable {
    enum portable_family family;
    int entry;               /* number within the family */
    enum portable_type type;
    const void *args;        /* struct <name>_args */
    size_t args_size;
    int64_t count;           /* number of elements of spans, or of teams */
    double work;             /* cost of one element or team, in additions, approximately */
    int together;            /* elements that a lane of a GPU computes together; 0: one */
    int n_operand;
    uint8_t bytes[PORTABLE_OPERANDS]; /* size of an element, if the operand is a view */
    struct portable_operand operand[PORTABLE_OPERANDS];
    uint32_t faults, results; /* masks: operands that are the launch's fault word, and its
                                 results */
};

/* Initialises a struct portable; args is a struct, which must outlive it: only its address is
 * stored. */
#define PORTABLE(family_, name, type_, args_, count_, work_) \
    {.family = FAMILY_##family_, .entry = ENTRY_##name - FIRST_##family_, .type = (type_), \
     .args = &(args_), .args_size = sizeof (args_), .count = (count_), .work = (work_)}

/* Provided by the plugin: runs the entry, or enqueues it to launch->stream. count 0: does
 * nothing. */
enum bp_status portable_run(const struct bp_launch *launch, const struct portable *p);

/* Provided by the plugin: returns whether its teams have many lanes that share fast memory, so that
 * they compute blocks of products (block.h), tiles of scans, and rows in registers (row.h). The
 * result for a device never changes. */
int portable_has_blocks(void *self, uint32_t device);

/* Returns the number that a row has in its list. The plugin of a device gets this function, and the
 * rows, from rows.c; a plugin with its own list of rows provides the function. */
int portable_number(const struct bp_kernel *row);
extern const struct bp_kernels portable_rows;

/* Provided by a plugin that has rows of libraries, or rows that some machines cannot run (rows.c):
 * the callback `usable` of all rows. */
enum bp_status portable_usable(void *self, const struct bp_kernel *row);

/* Provided by a plugin with -DPORTABLE_USABLE (rows.c): returns whether the device can run the row
 * at all. BP_OK, or BP_ERR_UNSUPPORTED without a message. */
enum bp_status portable_accepts(void *self, const struct bp_prep *prep);

/* Append an operand: a view (NULL: absent), the launch's fault word, or part of its workspace from
 * offset on. */
void portable_view(struct portable *p, const struct bp_view *view);
void portable_fault(struct portable *p, const struct bp_launch *launch);
void portable_workspace(struct portable *p, const struct bp_launch *launch, size_t offset);

/* Appends as operand the address of an entry in launch->result, or NULL. */
void portable_result(struct portable *p, int64_t *result);

/* Returns an axis attribute as an index counted from the first axis. */
static inline int portable_axis(int64_t axis, int rank)
{
    return (int)(axis < 0 ? axis + rank : axis);
}

/* Describes a contiguous tensor as three axes: the axes before `axis`, `axis` itself, and the axes
 * after it, each group as one. */
struct portable_split {
    int64_t outer, extent, inner;
};
struct portable_split portable_split(const struct bp_view *view, int axis);

/* The prepare function of a row that needs only workspace returns this: it sets the workspace's
 * size in bytes. */
static inline enum bp_status portable_needs(struct bp_plan *out, int64_t bytes)
{
    BP_SET(out, workspace, (uint64_t)bytes);
    return BP_OK;
}

/* A constant input that plans keep on the device as a packing entry wrote it. A plugin with
 * -DPORTABLE_KEEPS provides these functions; without it, every launch packs. A plan of the portable
 * kernels is NULL or such an input.
 *
 * portable_keep runs `pack` with new memory of `bytes` as the operand before all others, and waits
 * for its end. `pack` has input number `input` as its only operand; calls with equal
 * entries, types, arguments and counts share the result for one constant, so arguments that the
 * entry does not use must be 0. *out_bytes: the memory that this call took, 0 if it found the
 * result of an earlier one. NULL: the input is not constant, or there is no memory. */
struct portable_kept;
#ifdef PORTABLE_KEEPS
struct portable_kept *portable_keep(void *self, const struct bp_prep *prep, uint32_t input,
                                    const struct portable *pack, size_t bytes,
                                    uint64_t *out_bytes);
uint32_t portable_kept_input(const struct portable_kept *kept);
void portable_kept_append(struct portable *p, const struct portable_kept *kept); /* as operand */
void portable_kept_destroy(void *self, const struct bp_kernel *row, void *kept);
#else
static inline struct portable_kept *portable_keep(void *self, const struct bp_prep *prep,
                                                  uint32_t input, const struct portable *pack,
                                                  size_t bytes, uint64_t *out_bytes)
{
    (void)self, (void)prep, (void)input, (void)pack, (void)bytes, (void)out_bytes;
    return NULL;
}
static inline uint32_t portable_kept_input(const struct portable_kept *kept)
{
    (void)kept;
    return UINT32_MAX;
}
static inline void portable_kept_append(struct portable *p, const struct portable_kept *kept)
{
    (void)p, (void)kept;
}
#endif

/* The prepare function of a row that may keep an input returns this. */
static inline enum bp_status portable_needs_kept(struct bp_plan *out, int64_t bytes,
                                                 struct portable_kept *kept, uint64_t kept_bytes)
{
    if (kept) {
        BP_SET(out, plan, (void *)kept);
        BP_SET(out, bytes, kept_bytes);
    }
    return portable_needs(out, bytes);
}

/* The launch functions that rows name, one declaration each. */
#define ROW(op, launch, number, T, U, I, R, flags) \
    enum bp_status portable_##launch(const struct bp_launch *launch_);
#define ROW_DEVICE ROW
#include "../ops/families.def"
#define ROW_DEVICE_PLANNED ROW_PLANNED
#define ROW_PLANNED(op, launch, number, T, U, I, R, flags) \
    enum bp_status portable_##launch##_prepare(void *self, const struct bp_prep *prep, \
                                               struct bp_plan *out);
#include "../ops/families.def"
#define FORMULA(op, family, number, T, U) \
    enum bp_status portable_##family(const struct bp_launch *launch_);
#define FORMULA_BOOL(op, family, number)
#include "../ops/common/kernels_formula_rows.def"

/* The functions of rows of libraries, and of a plugin's own rows: see rows.c. */
#ifdef PORTABLE_LIBRARIES
#define LIBRARY_ROW(op, variant, function, plan, end, number, T, flags) \
    enum bp_status function(const struct bp_launch *launch); \
    enum bp_status plan(void *self, const struct bp_prep *prep, struct bp_plan *out); \
    void end(void *self, const struct bp_kernel *row, void *made);
#include PORTABLE_LIBRARIES
#endif
#ifdef PORTABLE_OWN
#define OWN_ROW(op, variant, function, T, U, I, R, flags) \
    enum bp_status function(const struct bp_launch *launch);
#define OWN_ROW_PLANNED(op, variant, function, plan, end, T, U, I, R, flags) \
    enum bp_status function(const struct bp_launch *launch); \
    enum bp_status plan(void *self, const struct bp_prep *prep, struct bp_plan *out); \
    void end(void *self, const struct bp_kernel *row, void *made);
#include PORTABLE_OWN
#undef OWN_ROW
#undef OWN_ROW_PLANNED
#endif

#endif
