/* SPDX-License-Identifier: Apache-2.0 */
/* engined_defect.c: makes runs of the engine wrong in one way, as BP_ENGINED says. */
#include "engined.h"

#include <stdlib.h>
#include <time.h>

static void element_change(float *element)
{
    *element = *element * 1.5f + 1;
}

/* Changes an element of a view of floats. */
static void element_spoil(const struct bp_engine_run *run, const struct bp_view *v, int64_t i)
{
    if (v->dtype == BP_F32 && v->count) engined_change(run, v, i, element_change);
}

static _Thread_local float stale_kept;
static _Thread_local bool stale_has;
static void element_keep(float *element)
{
    float now = stale_has ? stale_kept : *element;

    *element = stale_kept = now;
    stale_has = true;
}

/* Defects of runs that the conformance suite must notice: first, last: an element of the output is
 * wrong; second: from the second run of the process on; writes: the run changes its input; stale:
 * each run but the first of its thread gives the first one's result; meets: runs that meet use one
 * buffer; leaks: a run allocates memory that nothing frees; output: the second output is wrong;
 * extents: the last element of an output with another size than the first one of the process is
 * wrong; crowded: all runs keep the results of nodes in one block (run_place). */
void engined_defect(const struct bp_engine_run *run)
{
    static atomic_int runs, inside;
    static _Atomic int64_t count;
    int64_t none = 0;
    const struct bp_view *out = run->n_out ? run->out[0] : run->in[0]; /* groups may only update */
    const struct bp_view *last = run->n_out ? run->out[run->n_out - 1] : out;
    int number = atomic_fetch_add(&runs, 1);

    if (engined_has("run=first")) element_spoil(run, out, 0);
    if (engined_has("run=last")) element_spoil(run, out, out->count - 1);
    if (engined_has("run=second") && number) element_spoil(run, out, 0);
    if (engined_has("run=output") && run->n_out > 1) element_spoil(run, last, 0);
    if (engined_has("run=writes") && run->n_in) element_spoil(run, run->in[0], 0);
    if (engined_has("run=leaks")) {
        void *volatile lost = malloc(20000);
        lost = NULL;
        (void)lost;
    }
    atomic_compare_exchange_strong(&count, &none, out->count);
    if (engined_has("run=extents") && out->count != atomic_load(&count))
        element_spoil(run, out, out->count - 1);
    if (engined_has("run=stale") && out->dtype == BP_F32 && out->count)
        engined_change(run, out, 0, element_keep);
    if (!engined_has("run=meets")) return;
    if (atomic_fetch_add(&inside, 1)) element_spoil(run, out, 0);
    nanosleep(&(struct timespec){0, 200000}, NULL);
    atomic_fetch_sub(&inside, 1);
}
