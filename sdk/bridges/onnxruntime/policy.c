/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c: offers a second provider, which runs nothing, for sessions with a selection policy.
 *
 * A policy chooses among all devices that are registered, first those of hardware of their own
 * vendor, then by the names of their providers, and ONNX Runtime's own processor last. A provider
 * cannot refuse. The name of this provider comes just before that of Backplane's: a policy that
 * would choose a device of Backplane chooses this provider's device on the same hardware, and all
 * nodes stay with the other providers. */
#include "provider.h"

#include <stdlib.h>
#include <string.h>

#define POLICY_NAME "BackplaneDeclinesPolicies" /* in the order of bytes before ORT_NAME */

static const char *policy_name(const struct ort_ep_factory *self)
{
    (void)self;
    return POLICY_NAME;
}

/* --- the provider of a session --- */

static const char *policy_ep_name(const struct ort_ep *self)
{
    (void)self;
    return POLICY_NAME;
}

static struct ort_status *policy_capability(struct ort_ep *self, const struct ort_graph *graph,
                                            struct ort_support *support)
{
    (void)self;
    (void)graph;
    (void)support;
    return NULL;
}

static struct ort_status *policy_compile(struct ort_ep *self, const struct ort_graph **graph,
                                         const struct ort_node **fused, size_t n,
                                         struct ort_compute **out_compute,
                                         struct ort_node **out_context)
{
    (void)self;
    (void)graph;
    (void)fused;
    (void)out_compute;
    (void)out_context;
    return n ? ort_error(ORT_FAIL, "Backplane: %s has claimed no node", POLICY_NAME) : NULL;
}

static void policy_release_units(struct ort_ep *self, struct ort_compute **compute, size_t n)
{
    (void)self;
    (void)compute;
    (void)n;
}

static struct ort_status *policy_create(struct ort_ep_factory *self,
                                        const struct ort_hardware *const *hardware,
                                        const struct ort_pairs *const *facts, size_t n,
                                        const struct ort_session_options *options,
                                        const struct ort_logger *logger, struct ort_ep **out)
{
    struct ort_ep *ep = calloc(1, sizeof *ep);

    (void)self;
    (void)hardware;
    (void)facts;
    (void)n;
    (void)options;
    if (!ep) return ort_no_memory();
    *ep = (struct ort_ep){.version = ORT_SINCE,
                          .name = policy_ep_name,
                          .capability = policy_capability,
                          .compile = policy_compile,
                          .release_compute = policy_release_units};
    ort_log(logger, ORT_WARNING,
            "Backplane: a selection policy has chosen %s, which runs no node: "
            "Backplane runs sessions that name a device (add_provider_for_devices); "
            "BP_ORT_POLICIES=1 lets policies choose its devices",
            POLICY_NAME);
    ort_factory_use();
    *out = ep;
    return NULL;
}

static void policy_release(struct ort_ep_factory *self, struct ort_ep *ep)
{
    (void)self;
    free(ep);
    ort_factory_unuse();
}

/* --- its devices --- */

/* Whether an earlier device of Backplane is on the hardware of device i. */
static bool hardware_is_listed(uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (ort_factory.offer[k].hardware == ort_factory.offer[i].hardware) return true;
    return false;
}

/* A device on each hardware that has devices of Backplane. ONNX Runtime lists the devices of
 * Backplane's factory first. */
static struct ort_status *policy_devices(struct ort_ep_factory *self,
                                         const struct ort_hardware *const *hardware, size_t n,
                                         struct ort_ep_device **out, size_t room, size_t *out_n)
{
    struct ort_status *status = NULL;
    size_t done = 0;

    (void)hardware;
    (void)n;
    *out_n = 0;
    for (uint32_t i = 0; i < ort_factory.n_offer && done < room; i++) {
        if (!ort_factory.offer[i].hardware || hardware_is_listed(i)) continue;
        status = ort.ep_device_create(self, ort_factory.offer[i].hardware, NULL, NULL, &out[done]);
        if (status) break;
        done++;
    }
    if (!status) *out_n = done;
    for (size_t i = 0; i < done && status; i++) ort.ep_device_release(out[i]);
    return status;
}

static struct ort_status *policy_allocator(struct ort_ep_factory *self,
                                           const struct ort_memory_info *info,
                                           const struct ort_pairs *options,
                                           struct ort_allocator **out)
{
    (void)self;
    (void)info;
    (void)options;
    *out = NULL;
    return NULL;
}

static struct ort_status *policy_transfer(struct ort_ep_factory *self, struct ort_transfer **out)
{
    (void)self;
    *out = NULL;
    return NULL;
}

static bool policy_is_stream_aware(const struct ort_ep_factory *self)
{
    (void)self;
    return false;
}

struct ort_ep_factory *ort_policy_factory(const struct ort_ep_factory *model)
{
    static struct ort_ep_factory factory;
    const char *wanted = secure_getenv("BP_ORT_POLICIES");

    if (wanted && !strcmp(wanted, "1")) return NULL;
    factory = *model;
    factory.name = policy_name;
    factory.devices = policy_devices;
    factory.create = policy_create;
    factory.release = policy_release;
    factory.allocator = policy_allocator;
    factory.transfer = policy_transfer;
    factory.is_stream_aware = policy_is_stream_aware;
    factory.stream = NULL;
    return &factory;
}
