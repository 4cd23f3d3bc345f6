/* SPDX-License-Identifier: Apache-2.0 */
/* wait.c: waits for work of devices without the GIL, so that a signal, as of Ctrl-C, ends the wait.
 *
 * Python runs the handlers of signals on its main thread, between its own instructions. So a wait
 * is cut into slices, and after each one Python gets the opportunity. */
#include "module.h"
#include <stdlib.h>
#include <time.h>

#define SLICE 0.1 /* seconds */

static double wait_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int py_wait(struct py_state *state, enum bp_status (*wait)(void *what, uint64_t timeout_ns),
            void *what, double seconds)
{
    /* A wait without a limit ends by BP_WAIT_TIMEOUT if that is set: the library's own wait. */
    bool endless = seconds < 0 || seconds > 1e9, whole = endless && getenv("BP_WAIT_TIMEOUT");
    double end = wait_now() + seconds;
    enum bp_status status;

    for (;;) {
        double start = wait_now(), left = endless ? 2 * SLICE : end - start;
        bool last = whole || left <= SLICE;
        PyThreadState *thread = PyEval_SaveThread();

        if (left < 0) left = 0;
        status = wait(what, whole ? UINT64_MAX : (uint64_t)((last ? left : SLICE) * 1e9));
        PyEval_RestoreThread(thread);
        /* A timeout before the slice has ended is the failure of the work, as of a collective. */
        if (last || status != BP_ERR_TIMEOUT || wait_now() - start < SLICE / 2) break;
        if (PyErr_CheckSignals()) return -1;
    }
    if (status) py_fail(state, status); /* reads the message before deleters run */
    py_ledger_release(state->ledger);
    return status ? -1 : 0;
}
