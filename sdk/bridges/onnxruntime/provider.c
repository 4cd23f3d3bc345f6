/* SPDX-License-Identifier: Apache-2.0 */
/* provider.c: makes the execution provider of a session. */
#include "provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *provider_name(const struct ort_ep *self)
{
    (void)self;
    return ORT_NAME;
}

static struct ort_status *provider_capability(struct ort_ep *self, const struct ort_graph *graph,
                                              struct ort_support *support)
{
    return ort_claim((struct ort_provider *)self, graph, support);
}

static void provider_release_units(struct ort_ep *self, struct ort_compute **compute, size_t n)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        if (compute[i]) ort_unit_destroy((struct ort_unit *)compute[i]);
}

static struct ort_status *provider_compile_all(struct ort_provider *ep,
                                               const struct ort_graph **graph,
                                               const struct ort_node **fused, size_t n,
                                               struct ort_compute **out_compute,
                                               struct ort_node **out_context)
{

    for (size_t i = 0; i < n; i++) {
        struct ort_unit *unit = NULL;
        struct ort_status *status = ort_unit_create(ep, graph[i], fused[i], &unit);
        out_compute[i] = unit ? &unit->base : NULL;
        if (!status && ep->options.context_enable)
            status = ort_context_write(unit, graph[i], fused[i], &out_context[i]);
        if (status) {
            provider_release_units(&ep->base, out_compute, i + 1);
            memset(out_compute, 0, n * sizeof(void *));
            for (size_t k = 0; k < i && ep->options.context_enable; k++) {
                ort.node_release(out_context[k]);
                out_context[k] = NULL;
            }
            return status;
        }
        ep->n_unit++;
    }
    return NULL;
}

static struct ort_status *provider_compile(struct ort_ep *self, const struct ort_graph **graph,
                                           const struct ort_node **fused, size_t n,
                                           struct ort_compute **out_compute,
                                           struct ort_node **out_context)
{
    struct ort_provider *ep = (struct ort_provider *)self;
    struct ort_status *status;
    uint32_t before = 0;

    bp_thread_set_fallback(ep->fallback, &before);
    status = provider_compile_all(ep, graph, fused, n, out_compute, out_context);
    bp_thread_set_fallback(before, NULL);
    return status;
}

/* The offer of a device's name; NULL: there is none. */
static struct ort_offer *offer_find(const char *name)
{
    for (uint32_t i = 0; name && i < ort_factory.n_offer; i++)
        if (!strcmp(ort_factory.offer[i].name, name)) return &ort_factory.offer[i];
    return NULL;
}

/* The failure for a name that no device has, with the names that there are. */
static struct ort_status *provider_lacks(const char *wanted)
{
    char list[ORT_DEVICES * 34] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < ort_factory.n_offer && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                              ort_factory.offer[i].name);
    return ort_error(ORT_NOT_FOUND, "Backplane: there is no device %s; there are: %s",
                     wanted ? wanted : "", list);
}

static struct ort_status *provider_choose(struct ort_provider *ep,
                                          const struct ort_pairs *const *facts, size_t n)
{
    const char *named = n ? ort.pairs_get(facts[0], ORT_DEVICE_KEY) : NULL;
    const char *wanted = *ep->options.device ? ep->options.device : named;
    const struct ort_offer *of = offer_find(named);

    ep->offer = offer_find(wanted);
    if (!ep->offer) return provider_lacks(wanted);
    if (of && of != ep->offer && of->info) /* ONNX Runtime keeps the values in its memory */
        return ort_error(ORT_INVALID_ARGUMENT, "Backplane: option device is %s, but the session "
                         "names %s, which has memory of its own: let the session name %s", wanted,
                         named, wanted);
    if (!strcmp(ep->options.fallback, "deny")) ep->fallback = BP_CORE_FALLBACK_DENY;
    if (n > 1)
        ort_log(ep->logger, ORT_WARNING, "Backplane: a session runs on one device: %s is used, "
                "the other %zu are not", ep->offer->name, n - 1);
    return NULL;
}

struct ort_status *ort_provider_create(struct ort_ep_factory *self,
                                       const struct ort_hardware *const *hardware,
                                       const struct ort_pairs *const *facts, size_t n,
                                       const struct ort_session_options *options,
                                       const struct ort_logger *logger, struct ort_ep **out)
{
    struct ort_provider *ep = calloc(1, sizeof *ep);
    struct ort_status *status;

    (void)self;
    (void)hardware;
    if (!ep) return ort_no_memory();
    ep->base = (struct ort_ep){.version = ORT_SINCE,
                               .name = provider_name,
                               .capability = provider_capability,
                               .compile = provider_compile,
                               .release_compute = provider_release_units};
    ep->logger = logger;
    status = ort_options_read(options, &ep->options);
    if (!status) status = provider_choose(ep, facts, n);
    if (status) {
        free(ep);
        return status;
    }
    ort_factory_use();
    *out = &ep->base;
    return NULL;
}

void ort_provider_release(struct ort_ep_factory *self, struct ort_ep *ep)
{
    (void)self;
    free(ep);
    ort_factory_unuse();
}
