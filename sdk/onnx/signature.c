/* SPDX-License-Identifier: Apache-2.0 */
/* signature.c: checks that a node has only inputs and attributes that its operator may have.
 * Without the check, a wrong type, an unknown word or an unread attribute would be ignored and
 * produce wrong numbers. */
#include "resolve.h"
#include "row.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ANY = -1 };

struct signature {
    const char *name;
    int most;
    const char *attrs;
};

static const struct signature signature[] = {
#define SIGNATURE(name, most, attrs) {#name, most, attrs},
#include "signature.def"
#undef SIGNATURE
};

enum { SIGNATURES = sizeof signature / sizeof *signature };

/* Sorted by name: loading searches the list once for each node. */
static const struct signature *sorted[SIGNATURES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int signature_by_name(const void *a, const void *b)
{
    return strcmp((*(const struct signature *const *)a)->name,
                  (*(const struct signature *const *)b)->name);
}

static void signature_sort(void)
{
    for (size_t i = 0; i < SIGNATURES; i++) sorted[i] = &signature[i];
    qsort(sorted, SIGNATURES, sizeof *sorted, signature_by_name);
}

static const struct signature *find_signature(const char *op)
{
    const struct signature key = {.name = op}, *at = &key, **found;

    (void)pthread_once(&once, signature_sort);
    found = bsearch(&at, sorted, SIGNATURES, sizeof *sorted, signature_by_name);
    return found ? *found : NULL;
}

/* By enum Onnx__AttributeProto__AttributeType. */
static const char *const type_name[] = {"none", "float", "int", "string", "tensor", "graph",
                                        "floats", "ints", "strings", "tensors", "graphs",
                                        "sparse", "sparses", "type", "types"};

const char *onnx_attr_type(const Onnx__AttributeProto *a)
{
    int held = a->has_f ? 1 : a->has_i ? 2 : a->has_s ? 3 : a->t ? 4 : a->g ? 5 : a->n_floats ? 6
               : a->n_ints ? 7 : a->n_strings ? 8 : a->n_tensors ? 9 : a->n_graphs ? 10
               : a->sparse_tensor ? 11 : a->n_sparse_tensors ? 12 : a->tp ? 13
               : a->n_type_protos ? 14 : 0;
    int named = a->has_type ? (int)a->type : 0;

    if (held && named && held != named) return "of a type that its value has not";
    named = named ? named : held; /* files of the first version have no type */
    return named < 0 || named >= (int)(sizeof type_name / sizeof *type_name) ? "of no known type"
                                                                          : type_name[named];
}

/* One attribute of a signature. The texts are parts of the signature's string. */
struct known {
    const char *name, *types, *values; /* values: NULL: any value */
    size_t n_name, n_types, n_values;
    int64_t since, until; /* opsets, both included */
    bool needed;
};

/* Reads "@18", "@-17" or "@7-12"; without these: all opsets. */
static const char *read_opsets(const char *at, struct known *out)
{
    out->since = 0;
    out->until = ONNX_OPSET_MAX;
    if (*at != '@') return at;
    if (*++at != '-') out->since = strtol(at, (char **)&at, 10);
    if (*at == '-') out->until = strtol(at + 1, (char **)&at, 10);
    return at;
}

/* Reads the next attribute of a signature; NULL after the last one. */
static const char *next_known(const char *at, struct known *out)
{
    while (*at == ' ') at++;
    if (!*at) return NULL;
    *out = (struct known){.name = at, .n_name = strcspn(at, ":")};
    at += out->n_name + 1;
    out->types = at;
    out->n_types = strcspn(at, "!@= ");
    at += out->n_types;
    out->needed = *at == '!';
    if (*at == '!') at++;
    at = read_opsets(at, out);
    if (*at != '=') return at;
    out->values = ++at;
    out->n_values = strcspn(at, " ");
    return at + out->n_values;
}

/* Tests whether a text is one of the words of a list. */
static bool is_among(const char *list, size_t size, char separator, const char *text, size_t n)
{
    const char *end = list + size, *stop;

    for (; list < end; list = stop + 1) {
        stop = memchr(list, separator, (size_t)(end - list));
        if (!stop) stop = end;
        if ((size_t)(stop - list) == n && !memcmp(list, text, n)) return true;
    }
    return false;
}

static bool is_of(const struct known *k, int64_t opset)
{
    return k->since <= opset && opset <= k->until;
}

/* Finds an attribute for the node's opset. If the operator has it in other opsets only, the message
 * names these opsets. */
static enum bp_status find_known(const struct onnx_node *node, const struct signature *s,
                                 const char *name, struct known *out)
{
    struct known other = {.name = NULL};

    for (const char *at = s->attrs; (at = next_known(at, out));) {
        if (strlen(name) != out->n_name || memcmp(name, out->name, out->n_name)) continue;
        if (is_of(out, node->opset)) return BP_OK;
        other = *out;
    }
    if (!other.name)
        return onnx_node_error(BP_ERR_UNSUPPORTED, node,
                               "it has no attribute %.80s that is known here", name);
    return onnx_node_error(BP_ERR_INVALID, node,
                           "attribute %.80s is known %s opset %lld only, this is opset %lld", name,
                           node->opset < other.since ? "from" : "to",
                           (long long)(node->opset < other.since ? other.since : other.until),
                           (long long)node->opset);
}

static enum bp_status check_value(const struct onnx_node *node, const struct known *k,
                                  const Onnx__AttributeProto *a)
{
    char number[24];
    bool is_text = k->values && a->has_s;
    const char *text = is_text ? (const char *)a->s.data : number;
    size_t n = is_text ? a->s.len
                       : (size_t)snprintf(number, sizeof number, "%lld", (long long)a->i);

    if (!k->values || is_among(k->values, k->n_values, '|', text, n)) return BP_OK;
    return onnx_node_error(BP_ERR_UNSUPPORTED, node, "attribute %.*s is %.*s, expected %.*s",
                           (int)k->n_name, k->name, (int)(n < 80 ? n : 80), text,
                           (int)k->n_values, k->values);
}

enum bp_status onnx_check_once(const struct onnx_node *node, size_t i)
{
    Onnx__AttributeProto *const *attr = node->proto->attribute;

    for (size_t k = 0; k < i; k++)
        if (!strcmp(onnx_text(attr[k]->name), onnx_text(attr[i]->name)))
            return onnx_node_error(BP_ERR_INVALID, node, "attribute %.80s is given twice",
                                   attr[k]->name);
    return BP_OK;
}

static enum bp_status check_attribute(const struct onnx_node *node, const struct signature *s,
                                      size_t i)
{
    const char *name = onnx_text(node->proto->attribute[i]->name);
    const Onnx__AttributeProto *a = onnx_attr(node, name);
    const char *type;
    struct known k;

    if (!strncmp(name, "__", 2)) return BP_OK; /* a tool's note; ONNX's checker ignores it too */
    TRY(find_known(node, s, name, &k)); /* first, because it bounds the next check */
    TRY(onnx_check_once(node, i));
    if (!a) return BP_OK; /* in a function whose call does not set it */
    type = onnx_attr_type(a);
    if (!is_among(k.types, k.n_types, '/', type, strlen(type)))
        return onnx_node_error(BP_ERR_INVALID, node, "attribute %.80s is %s, expected %.*s", name,
                               type, (int)k.n_types, k.types);
    return check_value(node, &k, a);
}

static enum bp_status check_needed(const struct onnx_node *node, const struct known *k)
{
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)k->n_name, k->name);
    if (onnx_attr(node, name)) return BP_OK;
    for (size_t i = 0; i < node->proto->n_attribute && !node->caller; i++)
        if (!strcmp(onnx_text(node->proto->attribute[i]->name), name))
            return BP_OK; /* a function is searched without a call, which has the value */
    return onnx_node_error(BP_ERR_INVALID, node, "it needs the attribute %s", name);
}

enum bp_status onnx_check_node(const struct onnx_node *node)
{
    const Onnx__NodeProto *proto = node->proto;
    const char *op = node->row->name;
    const struct signature *s = find_signature(op);
    size_t n = proto->n_input;
    struct known k;

    if (!s) return onnx_error(BP_ERR_UNSUPPORTED, "operator %.60s has no signature", op);
    while (n && !*onnx_text(proto->input[n - 1])) n--;
    if (s->most != ANY && n > (size_t)s->most)
        TRY(onnx_fault(node, onnx_node_error(BP_ERR_INVALID, node, "%zu inputs, expected %d at "
                                             "most", n, s->most)));
    for (size_t i = 0; i < proto->n_attribute; i++)
        TRY(onnx_fault(node, check_attribute(node, s, i)));
    for (const char *at = s->attrs; (at = next_known(at, &k));)
        if (k.needed && is_of(&k, node->opset)) TRY(onnx_fault(node, check_needed(node, &k)));
    return BP_OK;
}
