/* SPDX-License-Identifier: Apache-2.0 */
/* cases_builder.c: builds and names cases for the cases.c files of all families, and has the table
 * of operators. */
#include "cases.h"
#include "cases_random.h"
#include <backplane/call.h>
#include <backplane/kernel.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If an operator definition names a CASES family that does not exist, the program does not link. */
#define CASES(family) cases_fn cases_##family;
#define OP(op, ins, outs, facts) facts
#define OPA(op, ins, outs, attrs, facts) facts
#include "../ops.def"

static const struct conform_op ops[] = {
#define CASES(family) .cases = cases_##family,
#define GRAD(rule) .grad = true,
#define DECOMPOSE(rule) .decompose = true,
#define NODIFF(why) .nodiff = true,
#define TOL(ulp_, terms_) .ulp = ulp_, .terms = terms_,
#define REF(family_) .family = ref_family_##family_,
#define OP(op, ins, outs, facts) {.name = #op, .reference = ref_##op, facts},
#define OPA(op, ins, outs, attrs, facts) {.name = #op, .reference = ref_##op, facts},
#include "../ops.def"
};

const struct conform_op *conform_op(const char *name)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, name)) return &ops[i];
    return NULL;
}

/* Reads "2x3", "scalar" or "-" up to '+' or the end. */
static const char *parse_shape(const char *text, struct kernel_input *in)
{
    size_t n = strcspn(text, "+");

    if (!strncmp(text, "-", n)) return text + n;
    in->present = true;
    if (strncmp(text, "scalar", n)) {
        char *end = (char *)text;
        do {
            in->shape[in->rank++] = strtoll(end, &end, 10);
        } while (*end == 'x' && end++ && in->rank < REF_RANK);
    }
    return text + n;
}

struct kernel_case *case_begin(const struct case_builder *builder, const char *shapes)
{
    struct kernel_case *made = calloc(1, sizeof *made);

    if (!made) abort();
    made->op = builder->op;
    made->row = builder->row;
    made->row_flags = builder->row_flags;
    while (made->n_in < CASE_PORTS) {
        struct kernel_input *in = &made->in[made->n_in++];
        in->dtype = builder->dtype[0];
        shapes = parse_shape(shapes, in);
        if (*shapes++ != '+') break;
    }
    if (builder->defaults && builder->attrs_size <= sizeof made->attrs)
        memcpy(&made->attrs, builder->defaults, builder->attrs_size);
    return made;
}

/* An id while it is being written. There are hundreds of thousands of ids, so printf is too
 * slow. */
struct id {
    char *text; /* CASE_ID bytes, terminated by a 0 */
    size_t n;
};

static void builder_cases_append(struct id *id, const char *text)
{
    size_t n = strlen(text), room = CASE_ID - 1 - id->n;

    if (n > room) n = room;
    memcpy(id->text + id->n, text, n);
    id->n += n;
    id->text[id->n] = 0;
}

static void append_extent(struct id *id, int64_t extent)
{
    char digits[24], *at = digits + sizeof digits;

    *--at = 0;
    do *--at = (char)('0' + extent % 10);
    while (extent /= 10);
    builder_cases_append(id, at);
}

static void append_shape(struct id *id, const struct kernel_input *in)
{
    if (!in->present) builder_cases_append(id, "-");
    else if (!in->rank) builder_cases_append(id, "scalar");
    for (int i = 0; i < in->rank; i++) {
        if (i) builder_cases_append(id, "x");
        append_extent(id, in->shape[i]);
    }
}

/* Appends the dtypes, "f32-i64/": of several variables, only those that differ from the first. */
static void append_dtypes(struct id *id, const uint32_t *dtype)
{
    builder_cases_append(id, num_type(dtype[0])->name);
    for (int v = 1; v < 4; v++) {
        if (dtype[v] == dtype[0]) continue;
        builder_cases_append(id, "-");
        builder_cases_append(id, num_type(dtype[v])->name);
    }
    builder_cases_append(id, "/");
}

void case_end(const struct case_builder *builder, struct kernel_case *made, const char *variant,
              ...)
{
    struct id id = {made->id, 0};
    va_list args;

    builder_cases_append(&id, builder->gradients ? "gradient/" : "kernel/");
    builder_cases_append(&id, builder->op->name);
    builder_cases_append(&id, "/");
    if (!builder->gradients) append_dtypes(&id, builder->dtype);
    va_start(args, variant);
    vsnprintf(made->id + id.n, CASE_ID - id.n, variant, args);
    va_end(args);
    id.n = strlen(made->id);
    builder_cases_append(&id, "/");
    for (int i = 0; i < made->n_in; i++) {
        if (i) builder_cases_append(&id, "+");
        append_shape(&id, &made->in[i]);
    }
    if (!builder->gradients) {
        builder_cases_append(&id, "@");
        builder_cases_append(&id, builder->row ? builder->row : "none");
    }
    builder->made(builder->ctx, made);
}

int64_t case_drawn(const struct case_builder *builder, int which, int64_t least, int64_t most)
{
    struct random random = random_of(builder->op->name, builder->seed + (uint64_t)which);

    return least + (int64_t)random_below(&random, (uint64_t)(most - least + 1));
}

const char *case_drawn_shape(const struct case_builder *builder, char *text, size_t size)
{
    snprintf(text, size, "%dx%d", (int)case_drawn(builder, 0, 1, 40),
             (int)case_drawn(builder, 1, 1, 800));
    return text;
}

/* Kernels of all dtypes divide their work alike, so one dtype represents all. */
static bool is_usual(const struct case_builder *builder)
{
    const struct bp_opinfo *op = bp_opinfo_find(builder->op->name);
    uint64_t types = op->types[0];
    uint32_t usual = types >> BP_F32 & 1 ? BP_F32 : types >> BP_I32 & 1 ? BP_I32 : BP_BOOL;

    return !builder->gradients && builder->dtype[0] == usual;
}

void case_extents(const struct case_builder *builder, struct kernel_case *made, const char *variant)
{
    if (!is_usual(builder)) {
        free(made);
        return;
    }
    made->sweep = CASE_EXTENTS;
    case_end(builder, made, "%s", variant);
}

void case_large(const struct case_builder *builder, struct kernel_case *made, const char *variant)
{
    if (!is_usual(builder)) {
        free(made);
        return;
    }
    made->large = CASE_LARGE;
    case_end(builder, made, "%s", variant);
}

void case_data(struct kernel_case *made, enum data data)
{
    for (int i = 0; i < made->n_in; i++) made->in[i].data = data;
}

void case_index(struct kernel_case *made, int in, uint32_t dtype, int64_t low, int64_t high)
{
    made->in[in].dtype = dtype;
    made->in[in].data = DATA_INDEX;
    made->in[in].low = low;
    made->in[in].high = high;
}

void case_list(struct kernel_case *made, int in, int n, const double *list)
{
    made->in[in].data = DATA_LIST;
    made->in[in].list = list;
    made->in[in].n_list = n;
}

bool case_is(const struct case_builder *builder, const char *op)
{
    return !strcmp(builder->op->name, op);
}

uint32_t case_wide(uint32_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16 ? (uint32_t)BP_F32 : dtype;
}

bool case_is_float(const struct case_builder *builder)
{
    return !num_is_int(num_type(builder->dtype[0]));
}

bool case_is_complex(const struct case_builder *builder)
{
    return num_type(builder->dtype[0])->class == NUM_COMPLEX;
}

struct bp_dims case_dims(struct kernel_case *made, int list, int64_t n, const int64_t *at)
{
    if (n) memcpy(made->dims[list], at, (size_t)n * sizeof *at);
    return (struct bp_dims){n ? made->dims[list] : NULL, n};
}

void case_lines(const struct case_builder *builder, const struct case_line *lines, int n)
{
    for (int i = 0; i < n; i++) {
        struct kernel_case *made;
        if (lines[i].data == DATA_NONFINITE && !case_is_float(builder)) continue;
        made = case_begin(builder, lines[i].shapes);
        case_data(made, lines[i].data);
        made->quick = lines[i].quick;
        case_end(builder, made, "%s", lines[i].variant);
    }
}

/* The lists of attributes are stored in the case itself: the pointers of the copy must point into
 * the copy. */
struct kernel_case *case_copy(const struct kernel_case *made)
{
    const struct bp_opinfo *op = bp_opinfo_find(made->op->name);
    struct kernel_case *copy = malloc(sizeof *copy);

    if (!copy) abort();
    *copy = *made;
    for (uint32_t i = 0; i < op->n_attr; i++) {
        struct bp_dims d;
        char *at = (char *)&copy->attrs + op->attr[i].offset;
        if (op->attr[i].kind != BP_ATTR_DIMS) continue;
        memcpy(&d, at, sizeof d);
        if (!d.n || d.at < made->dims[0] || d.at >= made->dims[CASE_LISTS - 1] + REF_RANK)
            continue; /* the list is not the case's: it lasts longer */
        d.at = copy->dims[0] + (d.at - made->dims[0]);
        memcpy(at, &d, sizeof d);
    }
    return copy;
}

uint32_t kernel_case_facts(const struct kernel_case *made)
{
    uint32_t facts = made->real ? 1u << ROW_REAL : 0;

    if (made->twice) return 1u << ROW_TWICE;
    if (made->via) return 1u << ROW_WITHIN | (uint32_t)made->thin << ROW_MAY_DECLINE;
    for (int i = 0; made->real && i < made->n_in; i++)
        if (made->in[i].frozen) facts |= 1u << ROW_FROZEN;
    return facts;
}

/* A copy with another layout; the suite `gradient` does not run it. */
static struct kernel_case *copy_of(const struct kernel_case *made)
{
    struct kernel_case *copy = case_copy(made);

    copy->gradient = 0;
    return copy;
}

void case_parts(const struct case_builder *builder, struct kernel_case *made, int n,
                const char *variant)
{
    const struct bp_opinfo *op = bp_opinfo_find(builder->op->name);

    made->n_out = n;
    for (int part = n - 1; part > 0; part--) {
        struct kernel_case *copy = copy_of(made);
        copy->part = part;
        case_end(builder, copy, "%s.%s", variant, op->out[part].name);
    }
    case_end(builder, made, "%s.%s", variant, op->out[0].name);
}

void case_smooth(struct kernel_case *made, int order)
{
    bool plain = !made->given && !made->host && !made->in_place && made->out == LAYOUT_DENSE;
    int64_t all = 0;

    for (int i = 0; i < made->n_in; i++) {
        const struct kernel_input *in = &made->in[i];
        int64_t n = in->present;
        for (int a = 0; a < in->rank; a++) n *= in->shape[a];
        plain &= in->layout == LAYOUT_DENSE;
        all += n;
    }
    made->gradient = plain && all > 0 && all <= CASE_SMOOTH ? order : 0;
}

void case_gradient(const struct case_builder *builder, const char *shapes, enum data data,
                   int order)
{
    struct kernel_case *made;

    if (!builder->gradients) return;
    made = case_begin(builder, shapes);
    case_data(made, data);
    made->gradient = order;
    case_end(builder, made, "smooth");
}

void case_real_of_any(const struct case_builder *builder, struct kernel_case *made, int from,
                      const char *variant)
{
    struct kernel_case *frozen;

    if (builder->gradients) {
        free(made);
        return;
    }
    made->real = true;
    frozen = copy_of(made);
    for (int i = from; i < frozen->n_in; i++) frozen->in[i].frozen = frozen->in[i].present;
    case_end(builder, frozen, "%s.frozen", variant);
    case_end(builder, made, "%s", variant);
}

void case_real(const struct case_builder *builder, struct kernel_case *made, int from,
               const char *variant)
{
    if (case_is_float(builder) && !case_is_complex(builder))
        case_real_of_any(builder, made, from, variant);
    else free(made);
}

void case_real_thin(const struct case_builder *builder, struct kernel_case *made, int from,
                    const char *variant)
{
    made->thin = true;
    case_real(builder, made, from, variant);
}

/* An input that is updated must have separate memory for each element (no stride of 0). */
static bool is_updated(const struct kernel_case *made, int input)
{
    const struct bp_opinfo *op = bp_opinfo_find(made->op->name);

    for (uint32_t i = 0; i < op->n_out; i++)
        if (op->out[i].kind == BP_PORT_UPDATE && op->out[i].share == input) return true;
    return false;
}

static bool is_new(const struct kernel_case *made)
{
    uint8_t kind = bp_opinfo_find(made->op->name)->out[0].kind;

    return kind == BP_PORT_OUT || kind == BP_PORT_OPTOUT;
}

void case_orders(const struct case_builder *builder, const struct kernel_case *made, int in,
                 const char *variant)
{
    if (builder->gradients || made->in[in].rank != 4) return;
    if (builder->row && !(builder->row_flags & BP_KERNEL_STRIDED)) return;
    for (int order = 1; order < 24; order++) {
        struct kernel_case *copy = copy_of(made);
        copy->in[in].layout = LAYOUT_ORDER;
        copy->in[in].order = order;
        case_end(builder, copy, "%s.order%d", variant, order);
    }
}

/* Only f32 gets all orders of axes: it represents the other dtypes. */
static void image_orders(const struct case_builder *builder, const struct kernel_case *made,
                         const char *variant)
{
    if (made->in[0].dtype == BP_F32) case_orders(builder, made, 0, variant);
}

void case_layouts(const struct case_builder *builder, struct kernel_case *made, const char *variant,
                  bool share)
{
    static const struct {
        enum layout layout;
        const char *name;
    } layouts[] = {{LAYOUT_OFFSET, "offset"},
                   {LAYOUT_PERMUTED, "permuted"},
                   {LAYOUT_GAPS, "gaps"},
                   {LAYOUT_REPEAT, "repeat"},
                   {LAYOUT_LAST, "last"}};
    struct kernel_case *copy;

    image_orders(builder, made, variant);
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (int i = 0; i < made->n_in; i++) {
            /* A row that takes only contiguous tensors gets a tensor that is not contiguous: the
             * row must refuse it. */
            bool contiguous_only = !(builder->row_flags & BP_KERNEL_STRIDED);
            if (!made->in[i].present || !made->in[i].rank) continue;
            if (layouts[l].layout == LAYOUT_PERMUTED && made->in[i].rank < 2) continue;
            if (layouts[l].layout == LAYOUT_LAST && (made->in[i].rank < 3 || i)) continue;
            if (layouts[l].layout == LAYOUT_REPEAT && is_updated(made, i)) continue;
            if (contiguous_only && layouts[l].layout > LAYOUT_PERMUTED) continue;
            if (contiguous_only && layouts[l].layout == LAYOUT_PERMUTED && i) continue;
            copy = copy_of(made);
            copy->in[i].layout = layouts[l].layout;
            case_end(builder, copy, "%s.%s%d", variant, layouts[l].name, i);
        }
    /* Views and updates do not allocate an output. */
    if (builder->row_flags & BP_KERNEL_STRIDED && is_new(made))
        for (int l = 0; l < 2; l++) {
            copy = copy_of(made);
            copy->out = l ? LAYOUT_GAPS : LAYOUT_PERMUTED;
            case_end(builder, copy, "%s.out-%s", variant, l ? "gaps" : "permuted");
        }
    if (share && builder->row_flags & BP_KERNEL_IN_PLACE) {
        copy = copy_of(made);
        copy->in_place = true;
        case_end(builder, copy, "%s.inplace", variant);
    }
    case_end(builder, made, "%s", variant);
}

void case_part_layouts(const struct case_builder *builder, struct kernel_case *made, int n,
                       const char *variant)
{
    const struct bp_opinfo *op = bp_opinfo_find(builder->op->name);
    char name[64];

    made->n_out = n;
    for (int part = n - 1; part >= 0; part--) {
        struct kernel_case *one = part ? copy_of(made) : made;
        one->part = part;
        snprintf(name, sizeof name, "%s.%s", variant, op->out[part].name);
        case_layouts(builder, one, name, false);
    }
}
