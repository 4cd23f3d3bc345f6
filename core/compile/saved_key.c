/* SPDX-License-Identifier: Apache-2.0 */
/* saved_key.c: computes the keys of saved programs. */
#include "saved.h"

#include "../call/fallback.h"
#include "../memory/source.h"
#include "../plugin/entry.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char key_place; /* its address identifies the file of this library */

/* A library that was built anew has another time, also if its version is the same. */
static void key_file(struct bp_digest *d, const char *path)
{
    struct stat s;

    bp_digest_add_text(d, path);
    if (!path || stat(path, &s)) return;
    bp_digest_add_word(d, (uint64_t)s.st_size);
    bp_digest_add_word(d, (uint64_t)s.st_mtim.tv_sec);
    bp_digest_add_word(d, (uint64_t)s.st_mtim.tv_nsec);
}

/* The plugin and its add-ons, whose patterns and kernels take part in a program. */
static void key_plugin(struct bp_digest *d, const struct bp_plugin_entry *entry)
{
    bp_digest_add_text(d, entry->plugin.name);
    bp_digest_add_text(d, entry->plugin.version);
    key_file(d, entry->manifest.library);
    for (uint32_t i = 0; i < entry->n_addon; i++) {
        bp_digest_add_text(d, entry->addon[i]->plugin.name);
        bp_digest_add_text(d, entry->addon[i]->plugin.version);
        key_file(d, entry->addon[i]->manifest.library);
    }
}

/* Which rows there are and which this machine can run depends on the processor, on settings and on
 * vendors' libraries. */
static void key_rows(struct bp_digest *d, const struct bp_plugin_entry *entry)
{
    for (uint32_t i = 0; i < entry->n_kernel; i++) {
        bp_digest_add_text(d, entry->kernel[i].op);
        bp_digest_add_text(d, entry->kernel[i].name);
        bp_digest_add_word(d, (uint64_t)(int64_t)entry->kernel[i].priority);
        bp_digest_add_word(d, entry->kernel_reason[i] != NULL);
        bp_digest_add_text(d, entry->kernel_layouts[i]);
    }
}

void bp_saved_add_device(struct bp_digest *d, const struct bp_device *device)
{
    const struct bp_plugin_entry *entry = device->entry;
    Dl_info own;

    bp_digest_add_text(d, bp_version());
    key_file(d, dladdr(&key_place, &own) ? own.dli_fname : NULL);
    bp_digest_add_text(d, device->name);
    bp_digest_add_text(d, device->properties.name);
    bp_digest_add_text(d, device->properties.driver);
    bp_digest_add_text(d, device->properties.arch);
    bp_digest_add_word(d, device->properties.images);
    bp_digest_add_word(d, device->core->width);
    key_plugin(d, entry);
    key_rows(d, entry);
}

static void key_type(struct bp_digest *d, const struct bp_view *view)
{
    bp_digest_add_word(d, (uint64_t)view->dtype << 32 | view->rank);
    bp_digest_add(d, view->shape, view->rank * sizeof *view->shape);
}

static void key_value(struct bp_digest *d, const struct bp_value *v)
{
    bp_digest_add_word(d, v->kind);
    key_type(d, &v->type->view);
    if (!v->constant) return;
    bp_digest_add_word(d, v->constant->view.flags);
    bp_digest_add(d, v->constant->stride, v->constant->view.rank * sizeof *v->constant->stride);
}

void bp_saved_add_attrs(struct bp_digest *d, const struct bp_opinfo *op, const void *attrs)
{
    for (uint32_t i = 0; attrs && i < op->n_attr; i++) {
        const struct bp_attr *a = &op->attr[i];
        const char *field = (const char *)attrs + a->offset;
        struct bp_dims dims;
        if (a->kind != BP_ATTR_DIMS) {
            bp_digest_add(d, field, 8u * a->count);
            continue;
        }
        memcpy(&dims, field, sizeof dims);
        bp_digest_add(d, dims.at, (size_t)dims.n * sizeof *dims.at);
    }
}

static void key_node(struct bp_digest *d, const struct bp_node *node)
{
    bp_digest_add_text(d, node->row->info.name);
    bp_digest_add_text(d, node->name);
    bp_digest_add_text(d, node->kernel);
    bp_digest_add_word(d, node->want);
    bp_digest_add(d, node->in, (node->n_in + node->n_out) * sizeof *node->in);
    bp_digest_add(d, node->in_at, (node->row->info.n_in + 1u) * sizeof *node->in_at);
    bp_saved_add_attrs(d, &node->row->info, node->attrs);
}

struct bp_digest bp_saved_key(const struct bp_graph *g, const struct bp_device *device,
                              const struct bp_compile_options *options)
{
    struct bp_digest d = bp_digest_begin();

    bp_saved_add_device(&d, device);
    bp_digest_add_text(&d, bp_env_get("BP_PASSES"));
    bp_digest_add_text(&d, bp_compile_checks("order") ? "order" : NULL);
    bp_digest_add_word(&d, options->no_passes);
    bp_digest_add_word(&d, bp_fallback_policy(device->core));
    bp_digest_add_word(&d, device->core->allow | options->allow);
    for (uint32_t v = 0; v < g->n_value; v++) key_value(&d, &g->value[v]);
    for (uint32_t n = 0; n < g->n_node; n++) key_node(&d, &g->node[n]);
    bp_digest_add(&d, g->input, g->n_input * sizeof *g->input);
    bp_digest_add(&d, g->output, g->n_output * sizeof *g->output);
    return d;
}

enum bp_status bp_saved_contents(struct bp_tensor *t, struct bp_digest *out_digest)
{
    uint64_t bytes = (uint64_t)t->view.count * (bp_dtype_bits(t->view.dtype) / 8);
    struct bp_digest d = bp_digest_begin();
    struct bp_stream *reader;
    enum bp_status status;
    void *copy;

    if (t->device->host_visible && !(t->view.flags & BP_VIEW_STRIDED)) {
        TRY(bp_buffer_hold_contents(t->buffer));
        bp_digest_add(&d, t->view.data, (size_t)bytes);
        bp_buffer_end_hold(t->buffer);
        *out_digest = d;
        return BP_OK;
    }
    copy = malloc((size_t)bytes + 1);
    if (!copy) return bp_error(BP_ERR_MEMORY, "no host memory to read a constant");
    status = bp_compile_stream(t->device, &reader);
    if (status == BP_OK) {
        status = bp_tensor_read(reader, t, copy, bytes);
        bp_stream_destroy(reader);
    }
    if (!status) bp_digest_add(&d, copy, (size_t)bytes);
    free(copy);
    *out_digest = d;
    return status;
}
