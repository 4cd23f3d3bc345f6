/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_pack.c: shares constant tensors in oneDNN's layouts between plans. A model that runs with
 * many shapes has a plan for each shape, and its weights are larger than all other data. */
#include "onednn.h"

struct onednn_pack *onednn_pack_find(struct cpu *self, const struct onednn_pack *like)
{
    const struct onednn *dnnl = onednn_opened();

    for (struct onednn_pack *p = self->packs; p && like->constant; p = p->next)
        if (p->constant == like->constant && p->from == like->from &&
            dnnl->dnnl_memory_desc_equal(&p->lies, &like->lies) &&
            dnnl->dnnl_memory_desc_equal(&p->wants, &like->wants)) {
            p->plans++;
            return p;
        }
    return NULL;
}

struct onednn_pack *onednn_pack_make(struct cpu *self, const struct onednn_pack *like)
{
    const struct bp_host *host = self->host;
    struct onednn_pack *p = host->allocate(host->ctx, sizeof *p, _Alignof(struct onednn_pack));

    if (!p) return NULL;
    *p = *like;
    p->data = host->allocate(host->ctx, p->bytes, ONEDNN_ALIGNMENT);
    if (!p->data) {
        host->release(host->ctx, p, sizeof *p);
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
    host->release(host->ctx, pack->data, pack->bytes);
    host->release(host->ctx, pack, sizeof *pack);
}
