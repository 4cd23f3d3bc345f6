/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h: probes a plugin: loads it in a child process, where it may crash, hang or exit, and
 * receives its description. */
#ifndef BP_PROBE_H
#define BP_PROBE_H

#include "tools.h"

/* A device that reports the identity of its hardware. Texts as in `bp info`, or "". */
struct bp_probe_device {
    uint32_t index;
    char uuid[40], pci[32];
};

/* The information about a plugin. Strings are owned and never NULL. */
struct bp_probe {
    char *name, *kind, *version;
    char *adds_to;            /* of an add-on, whose kind is "": what it adds to; else "" */
    char *manifest, *library; /* paths; manifest is "" for a library without one */
    char *reason;             /* why the plugin is absent or broken, or "" */
    /* The end of the output that its process printed. A plugin should print nothing. */
    char *output;
    uint32_t state; /* enum bp_plugin_state */
    uint32_t devices;
    struct bp_probe_device *hardware; /* n_hardware entries */
    uint32_t n_hardware;
    uint32_t step;  /* enum bp_plugin_step: the step that failed, or BP_STEP_COUNT */
    double seconds; /* duration of the child; 0: no child was run */
    bool not_queried; /* no child could be started, see reason */
};

/* Fills probe with the information that the core has without loading the plugin. */
void bp_probe_init(struct bp_probe *probe, const struct bp_plugin_info *info);

/* Whether a path names a manifest, by its extension; otherwise it names a library. */
bool bp_probe_is_manifest(const char *path);

/* Fills probe from the path of a library or a manifest alone; the name is a guess. */
void bp_probe_init_path(struct bp_probe *probe, const char *path);

/* Loads plugins, each in a child process, by its manifest if it has one, else by its library, and
 * fills in the results. Afterwards no state is unprobed, unless the child could not be started.
 * all: also probes plugins that the core reported as broken. Several children run at the same time.
 * The calling thread calls done for each plugin, in their order, as soon as the results of this
 * plugin and of all before it are known. Returns how many plugins could not be probed, after
 * printing an error if there are some. */
uint32_t bp_probe_run(const char *command, struct bp_probe *probes, uint32_t n, double timeout_s,
                      bool all, void (*done)(void *ctx, const struct bp_probe *probe), void *ctx);
void bp_probe_finish(struct bp_probe *probe);

/* Finds a device that is the same hardware as `device` of probes[i], among the devices of earlier
 * probes whose plugins are of another kind. Returns the plugin of that device and stores the device
 * in *out; NULL: there is none. */
const struct bp_probe *bp_probe_same(const struct bp_probe *probes, uint32_t i,
                                     const struct bp_probe_device *device,
                                     const struct bp_probe_device **out);

/* Returns {"name","kind","version","state","reason","devices"}, and "adds_to" of an add-on. */
cJSON *bp_probe_json(const struct bp_probe *probe);

/* The option --timeout: its default, and a check of its value, which prints an error if the value
 * is invalid. */
#define BP_PROBE_SECONDS 10.0
bool bp_probe_timeout_fits(const char *command, double seconds);

/* The steps that a probe's child reports before the instance is destroyed, and after. */
#define BP_STEP_DESTROY "destroy"
#define BP_STEP_EXIT "exit"

/* The name of a step. */
const char *bp_step_name(uint32_t step);

#endif
