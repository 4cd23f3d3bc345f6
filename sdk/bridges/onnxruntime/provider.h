/* SPDX-License-Identifier: Apache-2.0 */
/* provider.h: declares what the factory uses of providers. */
#ifndef ORT_PROVIDER_H
#define ORT_PROVIDER_H

#include "ort.h"

/* The key of a device's name among the facts of an OrtEpDevice. */
#define ORT_DEVICE_KEY "backplane_device"

struct ort_status *ort_provider_create(struct ort_ep_factory *self,
                                       const struct ort_hardware *const *hardware,
                                       const struct ort_pairs *const *facts, size_t n,
                                       const struct ort_session_options *options,
                                       const struct ort_logger *logger, struct ort_ep **out);
void ort_provider_release(struct ort_ep_factory *self, struct ort_ep *ep);

/* policy.c: a factory of a provider that runs nothing, which selection policies choose in place of
 * the provider of `model`; NULL if BP_ORT_POLICIES lets them choose that one. */
struct ort_ep_factory *ort_policy_factory(const struct ort_ep_factory *model);

#endif
