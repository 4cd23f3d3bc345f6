/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_pack.c: shares constant tensors in oneDNN's layouts between plans. A model that runs with
 * many shapes has a plan for each shape, and its weights are larger than all other data. */
#include "onednn.h"

struct onednn_pack *onednn_pack_find(struct cpu *self, const struct onednn_pack *like)
{
    const struct onednn *dnnl = onednn_opened();

    for (struct onednn_pack *p = self->packs; p && like->constant; p = p->next)
        if (p->constant == like->constant && p->from == like->from &&
            onednn_desc_equal(dnnl, &p->lies, &like->lies) &&
            onednn_desc_equal(dnnl, &p->wants, &like->wants)) {
            p->plans++;
            return p;
        }
    return NULL;
}

/* Frees the parts of a pack that exist. */
static void pack_free(const struct bp_host *host, struct onednn_pack *p)
{
    onednn_desc_finish(onednn_opened(), &p->lies);
    onednn_desc_finish(onednn_opened(), &p->wants);
    if (p->data) host->release(host->ctx, p->data, p->bytes);
    host->release(host->ctx, p, sizeof *p);
}

struct onednn_pack *onednn_pack_make(struct cpu *self, const struct onednn_pack *like)
{
    const struct bp_host *host = self->host;
    const struct onednn *dnnl = onednn_opened();
    struct onednn_pack *p = host->allocate(host->ctx, sizeof *p, _Alignof(struct onednn_pack));

    if (!p) return NULL;
    *p = *like;
    p->lies = p->wants = (struct onednn_desc){0};
    p->data = host->allocate(host->ctx, p->bytes, ONEDNN_ALIGNMENT);
    if (!p->data || !onednn_desc_copy(dnnl, &p->lies, &like->lies) ||
        !onednn_desc_copy(dnnl, &p->wants, &like->wants)) {
        pack_free(host, p);
        return NULL;
    }
    p->plans = 1;
    p->next = self->packs;
    self->packs = p;
    return p;
}

void onednn_pack_release(struct cpu *self, struct onednn_pack *pack)
{
    const struct bp_host *host = self->host;
    struct onednn_pack **at = &self->packs;

    pthread_mutex_lock(&self->packs_lock);
    if (--pack->plans) {
        pthread_mutex_unlock(&self->packs_lock);
        return;
    }
    while (*at != pack) at = &(*at)->next;
    *at = pack->next;
    pthread_mutex_unlock(&self->packs_lock);
    pack_free(host, pack);
}
