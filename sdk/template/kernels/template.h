/* SPDX-License-Identifier: Apache-2.0 */
/* template.h: declares the data and functions that the plugin's files share. */
#pragma once
/*+ engine: #include <backplane/engine.h> */
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <dialect/compute.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* not every callback needs all its arguments */

/* An instance, the self of all callbacks. */
struct template_self {
    const struct bp_host *host;
};

/* Returns the pointer by which the chip accesses `address` of the allocation with this handle. */
void *template_reach(void *handle, const void *address);
enum bp_status template_synchronize(void *self, uint32_t device, void *stream);
/*+ engine: extern const struct bp_engines template_engines; */
/*+ engine:  */
/*+ engine: uint64_t template_submit(struct template_self *self, void (*run)(const void *args), */
/*+ engine:                          const void *args, size_t size); */
