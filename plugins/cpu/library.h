/* SPDX-License-Identifier: Apache-2.0 */
/* library.h: finds and opens OpenBLAS and oneDNN, on which kernel rows of higher priority are
 * built.
 *
 * The plugin is not linked to these libraries, because an app may use other versions of them. The
 * plugin opens a library by its path, privately, when the first plan needs it, and never closes it,
 * because the library's threads would go on running. The library's environment variable names its
 * file ("off": none); without the variable the plugin searches the usual folders of Linux
 * distributions. A process opens each library once, whatever the number of instances. */
#ifndef CPU_LIBRARY_H
#define CPU_LIBRARY_H

#include "cpu.h"
#include <stdbool.h>

struct cpu_library {
    const char *name;          /* "OpenBLAS" */
    const char *variable;      /* the variable that names its file: "BP_CPU_OPENBLAS" */
    const char *package;       /* the package to install, for messages */
    const char *const *places; /* absolute paths, tried in this order; ends with NULL */
};

/* BP_OK if the library's file exists; otherwise BP_ERR_UNSUPPORTED and a message that names the
 * kernel row and the missing library. Does not open the file. */
enum bp_status cpu_library_usable(struct cpu *self, const struct cpu_library *library,
                                  const char *row);

/* Logs a warning if the library's variable names a file that cannot be read. Does not open it. */
void cpu_library_check(struct cpu *self, const struct cpu_library *library);

/* Whether the library's file exists. */
bool cpu_library_present(const struct cpu_library *library);

/* Writes the name of the library's file, with all links followed: "libdnnl.so.2.6". false: there is
 * no file. Does not open the file. */
bool cpu_library_name(const struct cpu_library *library, char *out, size_t size);

/* Opens the library and looks up its symbols: to[i] becomes the address of names[i]. false, with a
 * warning in the log: the library or a symbol is missing. */
bool cpu_library_open(struct cpu *self, const struct cpu_library *library, const char *const *names,
                      int n, void **to);

/* openblas.c, onednn.c: implement `usable` for the libraries' kernel rows. */
enum bp_status cpu_openblas_usable(struct cpu *self, const char *row);
enum bp_status cpu_dnnl_usable(struct cpu *self, const char *row);
bool cpu_openblas_present(void);
/* Called when an instance is created: cpu_library_check of the libraries. */
void cpu_openblas_check(struct cpu *self);
void cpu_dnnl_check(struct cpu *self);
bool cpu_dnnl_name(char *out, size_t size); /* cpu_library_name of oneDNN */

/* openblas.c: called when an instance is created; see the file. */
void cpu_openblas_choose_core(struct cpu *self);

#endif
