/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.h: names while a model is resolved. */
#ifndef BP_ONNX_RESOLVE_H
#define BP_ONNX_RESOLVE_H

#include "onnx.h"

/* The names of one graph or function; those of a sub-graph see the ones outside. */
struct scope {
    void *names; /* of tsearch */
    const struct scope *outer;
};

struct resolver {
    struct bp_model *model;
    struct scope *scope;
    const struct onnx_node *caller; /* of the function that is being inlined, or NULL */
    Onnx__OperatorSetIdProto *const *import;
    size_t n_import;
    const struct onnx_body **owner; /* by slot: the body whose nodes make it; NULL: a weight */
    const struct onnx_body *body;
    int depth;
};

/* "" for NULL. */
const char *onnx_text(const char *text);
int64_t onnx_opset(const struct bp_model *model);

/* The operator DOMAIN.NAME, of a plugin, that a node of another domain names; or NULL. */
const struct bp_opinfo *onnx_custom_op(const Onnx__NodeProto *node);

/* "" for the standard operators. */
const char *onnx_domain(const char *domain);

/* The version of a domain in a list of imports; 1 where it is not imported. */
int64_t onnx_version(Onnx__OperatorSetIdProto *const *import, size_t n, const char *domain);

/* The function of the model that a node calls, or NULL. */
const Onnx__FunctionProto *onnx_is_function(const Onnx__ModelProto *model,
                                            const Onnx__NodeProto *node);

enum bp_status onnx_resolve_graph(struct resolver *r, const Onnx__GraphProto *graph,
                                  struct onnx_body *body);

/* scope.c. find: in the scope and those outside it; false: there is none. bind: another name of a
 * slot. new: a slot for a name that is new in its scope. weight: the same, with its data. */
bool onnx_scope_find(const struct scope *scope, const char *name, uint32_t *out_slot);
enum bp_status onnx_scope_bind(struct scope *scope, const char *name, uint32_t slot);
enum bp_status onnx_scope_new(struct resolver *r, const char *name, uint32_t *out_slot);
enum bp_status onnx_scope_weight(struct resolver *r, const char *name,
                                 const Onnx__TensorProto *tensor,
                                 const Onnx__SparseTensorProto *sparse);
bool onnx_scope_is_weight(const struct resolver *r, const char *name);
void onnx_scope_finish(struct scope *scope);

/* defaults.c: fills model->function; and finds the entry of one. */
enum bp_status onnx_defaults(struct bp_model *model);
void onnx_defaults_finish(struct bp_model *model);
const struct onnx_function *onnx_function_of(const struct bp_model *model,
                                             const Onnx__FunctionProto *proto);

/* dead.c: after which node of a body each slot of its making is read no more. */
enum bp_status onnx_find_dead(const struct resolver *r, struct onnx_body *body);

#endif
