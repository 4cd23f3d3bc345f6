/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h: asks a plugin what it is in a child process, where it may crash, hang or exit. */
#ifndef BP_PROBE_H
#define BP_PROBE_H

#include "tools.h"

/* A device that tells what its hardware is: texts as of `bp info`, or "". */
struct bp_probe_device {
    uint32_t index;
    char uuid[40], pci[32];
};

/* What is known of a plugin; strings are owned and never NULL. */
struct bp_probe {
    char *name, *kind, *version;
    char *manifest, *library; /* paths; manifest is "" for a bare library */
    char *reason;             /* why it is absent or broken, or "" */
    char *output; /* what its process printed, the end of it; a plugin should print nothing */
    uint32_t state;           /* enum bp_plugin_state */
    uint32_t devices;
    struct bp_probe_device *hardware; /* n_hardware of them */
    uint32_t n_hardware;
    uint32_t step;            /* enum bp_plugin_step: the one that failed, or BP_STEP_COUNT */
    double seconds;           /* that the child took; 0: none was run */
    bool not_asked;           /* there was no child: nothing is known of the plugin, see reason */
};

/* What the core knows without asking. */
void bp_probe_init(struct bp_probe *probe, const struct bp_plugin_info *info);

/* Whether a path is that of a manifest, by its name; else it is that of a library. */
bool bp_probe_is_manifest(const char *path);

/* What the path of a library or a manifest tells: a guess at the name. */
void bp_probe_init_path(struct bp_probe *probe, const char *path);

/* Loads plugins, each in a child process, by its manifest if it has one, else by its library, and
 * fills in what came of it: the state is not unprobed afterwards, unless it could not be asked.
 * all: also those of which the core said that they are broken. Several are asked at once; done is
 * called for each, in their order, as soon as it and all before it are known, by the calling
 * thread. Answers how many could not be asked; then an error was printed. */
uint32_t bp_probe_run(const char *command, struct bp_probe *probes, uint32_t n, double timeout_s,
                      bool all, void (*done)(void *ctx, const struct bp_probe *probe), void *ctx);
void bp_probe_finish(struct bp_probe *probe);

/* The device, of another kind's plugin that stands before it among the probes, that is the same
 * hardware as one of probes[i]: its plugin, and which of its hardware; NULL: there is none. */
const struct bp_probe *bp_probe_same(const struct bp_probe *probes, uint32_t i,
                                     const struct bp_probe_device *device,
                                     const struct bp_probe_device **out);

/* {"name","kind","version","state","reason","devices"} */
cJSON *bp_probe_json(const struct bp_probe *probe);

/* The option --timeout: its default, and whether a value will do (else an error was printed). */
#define BP_PROBE_SECONDS 10.0
bool bp_probe_timeout_fits(const char *command, double seconds);

/* What a probe's child says before the instance ends, and after. */
#define BP_STEP_DESTROY "destroy"
#define BP_STEP_EXIT "exit"

/* How a step is called. */
const char *bp_step_name(uint32_t step);

#endif
