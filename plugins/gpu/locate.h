/* SPDX-License-Identifier: Apache-2.0 */
/* locate.h: finds the libraries that the plugin opens at run time: the driver's, and those of
 * vendors. Each place is searched for all names of a library before the next place. */
#ifndef GPU_LOCATE_H
#define GPU_LOCATE_H

#include "gpu.h"

enum { GPU_PATH_SIZE = 1024, GPU_SETTING_SIZE = 48, GPU_WHY_SIZE = 720 };

/* The places where a library may be. */
enum gpu_place {
    GPU_LOADED,  /* the process has loaded it already */
    GPU_PATH,    /* in a folder of LD_LIBRARY_PATH */
    GPU_FOLDERS, /* in one of the folders of gpu_wanted */
    GPU_LOADER,  /* where the system's loader searches */
    GPU_PLACES
};

/* A library to search for. */
struct gpu_wanted {
    const char *setting;         /* "DRIVER": if BP_<PLUGIN>_DRIVER is set, it alone is used: an
                                    absolute path, or "off": none */
    const char *const *names;    /* file names; ends with NULL */
    const char *folders;         /* a list as gpu_target.folders */
    const enum gpu_place *place; /* in order; ends with GPU_PLACES */
};

/* The library that was found. */
struct gpu_found {
    void *library;            /* NULL: not open yet, only its file is known */
    char path[GPU_PATH_SIZE]; /* of the file; only the name if the loader found the file */
};

/* Writes the setting's environment variable: "BP_CUDA_DRIVER". */
void gpu_setting_name(char out[GPU_SETTING_SIZE], const char *setting);
/* The setting's value; NULL: not set, or the process has more rights than its user. */
const char *gpu_setting(const char *setting);

/* Searches for the library; a search by the system's loader opens it. BP_ERR_ABSENT: not found
 * anywhere. BP_ERR_DEVICE: the file exists, but cannot be opened. `why` receives the reason. */
enum bp_status gpu_locate(const struct gpu_wanted *wanted, struct gpu_found *out,
                          char why[GPU_WHY_SIZE]);
/* The same, and opens the library; out->path is then the path of its file. The library is never
 * closed. */
enum bp_status gpu_locate_open(const struct gpu_wanted *wanted, struct gpu_found *out,
                               char why[GPU_WHY_SIZE]);

#endif
