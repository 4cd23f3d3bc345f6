/* SPDX-License-Identifier: Apache-2.0 */
/* locate.h: where the libraries are that are opened when the plugin runs: the driver's, and those
 * of vendors. A place is asked for each name of the library before the next place is. */
#ifndef GPU_LOCATE_H
#define GPU_LOCATE_H

#include "gpu.h"

enum { GPU_PATH_SIZE = 1024, GPU_SETTING_SIZE = 48, GPU_WHY_SIZE = 720 };

/* Where a library may be. */
enum gpu_place {
    GPU_LOADED,  /* the process has it already */
    GPU_PATH,    /* in a folder of LD_LIBRARY_PATH */
    GPU_FOLDERS, /* in one of its folders */
    GPU_LOADER,  /* where the system's loader looks */
    GPU_PLACES
};

/* A library to be looked for. */
struct gpu_wanted {
    const char *setting;         /* "DRIVER": BP_<PLUGIN>_DRIVER, if it is set, is the only place:
                                    an absolute path, or "off": nowhere */
    const char *const *names;    /* of its file; NULL at the end */
    const char *folders;         /* a list as gpu_target.folders */
    const enum gpu_place *place; /* in order; GPU_PLACES at the end */
};

/* What was found. */
struct gpu_found {
    void *library;            /* NULL: it is not open yet, there is its file alone */
    char path[GPU_PATH_SIZE]; /* of its file; the name alone where the loader found it */
};

/* "BP_CUDA_DRIVER" */
void gpu_setting_name(char out[GPU_SETTING_SIZE], const char *setting);
/* Its value; NULL: it is not set, or the process runs with more rights than its user has. */
const char *gpu_setting(const char *setting);

/* Looks for it; the loader is asked by opening it. BP_ERR_ABSENT: it is nowhere. BP_ERR_DEVICE: it
 * is there, but the loader cannot open it. why says which. */
enum bp_status gpu_locate(const struct gpu_wanted *wanted, struct gpu_found *out,
                          char why[GPU_WHY_SIZE]);
/* The same, and opens it; path is then that of its file. It is never closed. */
enum bp_status gpu_locate_open(const struct gpu_wanted *wanted, struct gpu_found *out,
                               char why[GPU_WHY_SIZE]);

#endif
