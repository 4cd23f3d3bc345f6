/* SPDX-License-Identifier: Apache-2.0 */
/* library.h: finds, opens and loads the libraries of a vendor at run time: neither building nor
 * loading a plugin needs them. docs/kit.md explains the kit. */
#ifndef KIT_LIBRARY_H
#define KIT_LIBRARY_H

#include <backplane/plugin.h>
#include <pthread.h>
#include <stdbool.h>

enum {
    KIT_PATH_SIZE = 1024,
    KIT_SETTING_SIZE = 48,
    KIT_WHY_SIZE = 1024
};

/* Writes the name of a plugin's environment variable: "BP_CUDA_DRIVER". */
void kit_setting_name(char out[KIT_SETTING_SIZE], const char *plugin, const char *setting);
/* Returns the value of this variable; NULL: not set, empty, or the process has more rights than its
 * user. */
const char *kit_setting(const char *plugin, const char *setting);
/* Whether this variable is 1. */
bool kit_setting_is_on(const char *plugin, const char *setting);

/* The places where a library may be. */
enum kit_place {
    KIT_LOADED,  /* the process has loaded it already */
    KIT_PATH,    /* in a folder of LD_LIBRARY_PATH */
    KIT_FOLDERS, /* in one of the folders of kit_wanted */
    KIT_LOADER,  /* where the system's loader searches */
    KIT_PLACES
};

/* A library to search for. Each place is searched for all names before the next place. */
struct kit_wanted {
    const char *plugin;          /* "cuda" */
    const char *setting;         /* "DRIVER": if BP_CUDA_DRIVER is set, it alone is used: an
                                    absolute path, or "off": none */
    const char *const *names;    /* file names; ends with NULL. In folders a name may be a glob
                                    pattern, "libname.so*": then the newest version is taken */
    const char *folders;         /* in the format of LD_LIBRARY_PATH; a folder may be a glob pattern
                                    and may begin with an environment variable:
                                    "$CONDA_PREFIX/lib" */
    const enum kit_place *place; /* in order; ends with KIT_PLACES */
};

/* The library that was found. */
struct kit_found {
    void *library;            /* NULL: not open yet, only its file is known */
    char path[KIT_PATH_SIZE]; /* of the file; only the name if the loader found the file */
};

/* Searches for the library; a search by the system's loader opens it. BP_ERR_ABSENT: not found
 * anywhere. BP_ERR_DEVICE: the file exists, but cannot be opened. `why` receives the reason: the
 * names and the places that were searched. */
enum bp_status kit_library_find(const struct kit_wanted *wanted, struct kit_found *out,
                                char why[KIT_WHY_SIZE]);
/* The same, and opens the library; out->path is then the path of its file. The library is never
 * closed, because its threads may still run its code. */
enum bp_status kit_library_open(const struct kit_wanted *wanted, struct kit_found *out,
                                char why[KIT_WHY_SIZE]);

/* A function of a library, and whether a library without the function is unusable. */
struct kit_symbol {
    const char *name; /* NULL: not looked up; the table of functions keeps its value */
    bool needed;
};

/* The functions of a library, and the state that a process keeps about it. */
struct kit_library {
    const struct kit_symbol *symbol; /* the names of its n functions */
    int n;
    const char *advice;   /* the end of the message about a missing function, or NULL */
    void **function;      /* the table of the n loaded functions; NULL: the library lacks it */
    pthread_mutex_t lock; /* guards loading: PTHREAD_MUTEX_INITIALIZER */
    bool tried;
    enum bp_status status;
    char path[KIT_PATH_SIZE]; /* of the file that was opened */
    char why[KIT_WHY_SIZE];   /* the reason if the library is unusable */
};

/* The initial value of a kit_library: an array of symbols, the table, of the same length, and the
 * advice. */
#define KIT_LIBRARY(symbols, functions, the_advice) \
    { \
        .symbol = symbols, .n = sizeof(symbols) / sizeof *(symbols), .advice = the_advice, \
        .function = functions, .lock = PTHREAD_MUTEX_INITIALIZER \
    }

/* Opens the library and looks up its functions. Later calls return the same status, without another
 * search. BP_ERR_ABSENT: not found. BP_ERR_DEVICE: it cannot be opened, or lacks a function that is
 * needed. library->why has the reason; no message is written. */
enum bp_status kit_library_load(struct kit_library *library, const struct kit_wanted *wanted);

#endif
