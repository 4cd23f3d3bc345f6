/* SPDX-License-Identifier: Apache-2.0 */
/* library.h: OpenBLAS and oneDNN, which rows of higher priority call.
 *
 * The plugin is linked to neither: an app may use them too, in another version. It opens a
 * library by its path, privately, when the first plan asks for it, and never closes it (its
 * threads would run on). Where its file lies: the environment variable of the library says so
 * ("off": nowhere), else it is looked for where distributions put it. A process opens each
 * library once, whatever the number of instances. */
#ifndef CPU_LIBRARY_H
#define CPU_LIBRARY_H

#include "cpu.h"
#include <stdbool.h>

struct cpu_library {
    const char *name;          /* "OpenBLAS" */
    const char *variable;      /* names its file: "BP_CPU_OPENBLAS" */
    const char *package;       /* what to install */
    const char *const *places; /* absolute paths, tried in this order, NULL at the end */
};

/* BP_OK if there is a file; else BP_ERR_UNSUPPORTED and a message that says what row lacks.
 * Opens nothing. */
enum bp_status cpu_library_usable(struct cpu *self, const struct cpu_library *library,
                                  const char *row);

/* Whether there is a file. */
bool cpu_library_present(const struct cpu_library *library);

/* Opens it and finds symbols: to[i] becomes that of names[i]. false, and a warning in the log:
 * it cannot be. */
bool cpu_library_open(struct cpu *self, const struct cpu_library *library, const char *const *names,
                      int n, void **to);

/* openblas.c, onednn.c: `usable` of their rows. */
enum bp_status cpu_openblas_usable(struct cpu *self, const char *row);
enum bp_status cpu_dnnl_usable(struct cpu *self, const char *row);
bool cpu_openblas_present(void);

/* openblas.c: called by create; see there. */
void cpu_openblas_choose_core(struct cpu *self);

#endif
