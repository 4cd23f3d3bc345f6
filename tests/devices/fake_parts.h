/* SPDX-License-Identifier: Apache-2.0 */
/* fake_parts.h: declares the functions that the files of the fake device share. fake.c has the
 * script and the tables, fake_memory.c memory, fake_stream.c streams and events, fake_work.c the
 * execution of work, fake_capture.c captures, fake_orders.c the control functions for tests,
 * fake_rows.c, fake_weak.c and fake_operators.c kernels and operators, fake_tables.c and
 * fake_misdeeds.c the faults of a plugin, fake_mutant.c defective kernels. */
#ifndef BP_TEST_FAKE_PARTS_H
#define BP_TEST_FAKE_PARTS_H

#include "fake.h"

#include <backplane/capture.h>
#include <backplane/kernel.h>
#include <backplane/runtime.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

enum fake_mode { FAKE_INLINE, FAKE_LATE, FAKE_POLLED, FAKE_THREAD };

/* Defined by each library in fake_script.c. */
extern const char fake_name[], fake_script[];

/* The value of a word in the script, "" if it has none; NULL: the script does not have the word.
 * The value ends at a space. */
const char *fake_word(const char *word);
static inline bool fake_has(const char *word)
{
    return fake_word(word) != NULL;
}
bool fake_is(const char *word, const char *value);
uint64_t fake_number(const char *word, uint64_t otherwise);
/* Copies the value of a word to text. */
const char *fake_text(const char *word, char text[32], const char *otherwise);

extern struct fake fake;
extern enum fake_mode fake_mode;
extern const struct bp_host *fake_host; /* of the last instance, for callbacks without self */

/* The status that a test has set for the callback, or a fault of the script for that size; BP_OK:
 * continue normally. */
enum bp_status fake_first(const struct bp_host *host, enum fake_callback callback, uint64_t size);
/* Whether the script has that fault for a call of that size. */
bool fake_fault(enum fake_callback callback, uint64_t size, const char *fault);
/* Sets the callback's result from now on: see `answer` in fake.h. */
void fake_override(enum fake_callback callback, uint32_t status, const char *reason);
/* Does the harm to the process that the script names for this step: fake_misdeeds.c. */
void fake_step(const char *step);
void fake_step_open(void);
/* Called when the core has broken a rule. */
void fake_break(void);

/* An instance: the `self` of each callback. */
struct fake_instance {
    const struct bp_host *host;
    struct fake_work *work; /* declared in fake_work.h */
    uint64_t used;          /* bytes of memory */
    int plans, streams;     /* existing ones */
};

/* fake_work.c, fake_stream.c */
enum bp_status fake_work_create(struct fake_instance *f);
void fake_work_destroy(struct fake_instance *f);
/* Whether work that has not run uses the memory, or the plan. */
bool fake_uses(const void *first, uint64_t size, const void *plan);
/* The launch function of every kernel: submits the kernel's `run` as work. */
enum bp_status fake_launch(const struct bp_launch *launch);
/* The callbacks that submit work or wait for it. */
extern const struct bp_runtime fake_work_runtime;

/* fake_capture.c */
extern const struct bp_captures fake_captures;

/* fake_memory.c */
enum bp_status fake_memory_create(struct fake_instance *f);
void fake_memory_destroy(struct fake_instance *f);
enum bp_status fake_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                             struct bp_memory *out);
void fake_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory);
enum bp_status fake_export(void *self, uint32_t device, uint32_t space,
                           const struct bp_memory *memory, int32_t *out_fd, uint64_t *out_offset);
uint64_t fake_alignment(void);

/* fake_rows.c: the kernels of the set that the script names. */
struct fake_row {
    struct bp_kernel kernel;
    enum bp_status (*run)(const struct bp_launch *launch);
    const char *set;
};
/* fake_weak.c: the kernels of rows=weak. */
enum bp_status fake_weak_add(const struct bp_launch *launch);
enum bp_status fake_weak_where(const struct bp_launch *launch);
enum bp_status fake_weak_relu(const struct bp_launch *launch);
enum bp_status fake_weak_assign(const struct bp_launch *launch);
enum bp_status fake_weak_cast(const struct bp_launch *launch);
enum bp_status fake_weak_clip(const struct bp_launch *launch);
enum bp_status fake_weak_gather(const struct bp_launch *launch);
/* fake_weak_order.c: those that return indices. */
enum bp_status fake_weak_argsort(const struct bp_launch *launch);
enum bp_status fake_weak_topk(const struct bp_launch *launch);
enum bp_status fake_weak_argmax(const struct bp_launch *launch);
enum bp_status fake_weak_pool(const struct bp_launch *launch);
enum bp_status fake_weak_nonzero(const struct bp_launch *launch);
enum bp_status fake_weak_unique(const struct bp_launch *launch);
void fake_rows_find(struct bp_kernels *kernels);

/* fake_operators.c: the fake device's own operators, for these kernels. */
struct fake_repeat_attrs {
    size_t size;
    int64_t times;
    double factor;
};
enum bp_status fake_repeat(const struct bp_launch *launch);
void fake_operators_find(struct bp_kernels *kernels);

/* The plugin's tables, with further members behind each, as in a newer plugin. fake_spoil applies
 * the script's faults (fake_tables.c). */
struct fake_tables {
    struct fake_table table;
    void *after_table[4];
    struct bp_runtime runtime;
    void *after_runtime[4];
    struct bp_kernels kernels;
};
void fake_spoil(struct fake_tables *tables);
/* Sets the kernels and the runtime of rows=mutant: fake_mutant.c. */
void fake_mutate(struct fake_tables *tables);
/* The result of bp_plugin_get, which each library defines itself: fake_script.c. */
const struct bp_plugin *fake_get(void);

#endif
