/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.h: declares the scopes of names, and the functions that give each name of a model a slot
 * while it is loaded. */
#ifndef BP_ONNX_RESOLVE_H
#define BP_ONNX_RESOLVE_H

#include "onnx.h"

/* The names of one graph or function. Nodes of a sub-graph also find the names of the outer
 * scopes. */
struct scope {
    void *names; /* a tree of tsearch */
    const struct scope *outer; /* or NULL */
};

struct resolver {
    struct bp_model *model;
    struct scope *scope;
    const struct onnx_node *caller; /* the call of the function being inlined, or NULL */
    Onnx__OperatorSetIdProto *const *import;
    size_t n_import;
    const struct onnx_body **owner; /* by slot: the body whose nodes set it; NULL: a weight */
    const struct onnx_body *body;
    int depth;
};

/* Returns text, or "" for NULL. */
const char *onnx_text(const char *text);
int64_t onnx_opset(const struct bp_model *model);

/* Returns the name of a node for messages: its own, that of its first output, or its operator. */
const char *onnx_node_name(const Onnx__NodeProto *node);

/* Finds the operator DOMAIN.NAME of a plugin for a node of a domain that is not ONNX's; or NULL. */
const struct bp_opinfo *onnx_custom_op(const Onnx__NodeProto *node);

/* Returns "" for a name of the standard domain, otherwise the domain. */
const char *onnx_domain(const char *domain);

/* Finds the version of a domain in a list of imports; 1 if the domain is not imported. */
int64_t onnx_version(Onnx__OperatorSetIdProto *const *import, size_t n, const char *domain);

/* Finds the function of the model that a node calls, or NULL. */
const Onnx__FunctionProto *onnx_is_function(const Onnx__ModelProto *model,
                                            const Onnx__NodeProto *node);

enum bp_status onnx_resolve_graph(struct resolver *r, const Onnx__GraphProto *graph,
                                  struct onnx_body *body);

/* scope.c. find: searches the scope and those outside it; false if the name is unknown. bind: gives
 * a slot one more name. new: creates a slot for a name that is new in its scope. weight: creates a
 * slot as new does, with the data of an initialiser. */
bool onnx_scope_find(const struct scope *scope, const char *name, uint32_t *out_slot);
enum bp_status onnx_scope_bind(struct scope *scope, const char *name, uint32_t slot);
enum bp_status onnx_scope_new(struct resolver *r, const char *name, uint32_t *out_slot);
enum bp_status onnx_scope_weight(struct resolver *r, const char *name,
                                 const Onnx__TensorProto *tensor,
                                 const Onnx__SparseTensorProto *sparse);
bool onnx_scope_is_weight(const struct resolver *r, const char *name);
void onnx_scope_finish(struct scope *scope);

/* defaults.c: fills model->function, and finds the entry of one function. */
enum bp_status onnx_defaults(struct bp_model *model);
void onnx_defaults_finish(struct bp_model *model);
const struct onnx_function *onnx_function_of(const struct bp_model *model,
                                             const Onnx__FunctionProto *proto);

/* order.c: finds an order of n nodes in which each value is made before it is read. out_order: NULL
 * if the nodes are in such an order, otherwise their numbers; the caller frees it. Nodes keep their
 * order, except that those whose results a node reads come before it. BP_ERR_INVALID: a cycle. */
enum bp_status onnx_order(const struct resolver *r, Onnx__NodeProto *const *node, size_t n,
                          size_t **out_order);

/* dead.c: finds the node of a body after which each slot that the body sets is read no more. */
enum bp_status onnx_find_dead(const struct resolver *r, struct onnx_body *body);

#endif
