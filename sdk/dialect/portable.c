/* SPDX-License-Identifier: Apache-2.0 */
/* portable.c: implements the host's side of portable kernels: their types, entries and operands. */
#include "portable.h"

enum portable_type portable_type(uint32_t dtype)
{
    static const uint8_t type[] = {
        [BP_BOOL] = TYPE_u8, [BP_I8] = TYPE_i8,   [BP_I16] = TYPE_i16, [BP_I32] = TYPE_i32,
        [BP_I64] = TYPE_i64, [BP_U8] = TYPE_u8,   [BP_U16] = TYPE_u16, [BP_U32] = TYPE_u32,
        [BP_U64] = TYPE_u64, [BP_F16] = TYPE_f16, [BP_BF16] = TYPE_bf16, [BP_F32] = TYPE_f32,
        [BP_F64] = TYPE_f64, [BP_C64] = TYPE_c64, [BP_C128] = TYPE_c128, [BP_F8E4M3] = TYPE_u8,
        [BP_F8E5M2] = TYPE_u8, [BP_F8E8M0] = TYPE_u8, [BP_F8E4M3FNUZ] = TYPE_u8,
        [BP_F8E5M2FNUZ] = TYPE_u8,
    };
    return (enum portable_type)type[dtype];
}

enum portable_type portable_move_type(uint32_t dtype)
{
    static const uint8_t type[] = {
#define X(NAME, name, number, bits, class) \
    [number] = (bits) == 8 ? TYPE_i8 : (bits) == 16 ? TYPE_i16 : (bits) == 32 ? TYPE_i32 \
             : (bits) == 64 ? TYPE_i64 : TYPE_c128,
        BP_DTYPES(X)
#undef X
    };
    return (enum portable_type)type[dtype];
}

int portable_type_bytes(enum portable_type type)
{
    static const uint8_t bytes[] = {
        [TYPE_i8] = 1,  [TYPE_i16] = 2,  [TYPE_i32] = 4, [TYPE_i64] = 8, [TYPE_u8] = 1,
        [TYPE_u16] = 2, [TYPE_u32] = 4,  [TYPE_u64] = 8, [TYPE_f16] = 2, [TYPE_bf16] = 2,
        [TYPE_f32] = 4, [TYPE_f64] = 8,  [TYPE_c64] = 8, [TYPE_c128] = 16,
    };
    return bytes[type];
}

int portable_bytes(uint32_t dtype)
{
    return portable_type_bytes(portable_move_type(dtype));
}

/* The name and form of each entry, by ENTRY_<name>; and the first entry of each family. */
static const struct {
    const char *name;
    int is_team;
} entry_of[] = {
#define ENTRY(name) [ENTRY_##name] = {#name, 0},
#define ENTRY_TEAM(name) [ENTRY_##name] = {#name, 1},
#include "../ops/families.def"
};
static const int first_of[] = {
#define FAMILY(family) FIRST_##family,
#include "../ops/families.def"
    PORTABLE_ENTRIES,
};

int portable_entries(enum portable_family family)
{
    return first_of[family + 1] - first_of[family];
}

int portable_entry_number(enum portable_family family, int entry)
{
    return first_of[family] + entry;
}

const char *portable_entry_name(enum portable_family family, int entry)
{
    return entry_of[portable_entry_number(family, entry)].name;
}

int portable_entry_is_team(enum portable_family family, int entry)
{
    return entry_of[portable_entry_number(family, entry)].is_team;
}

const char *portable_type_name(enum portable_type type)
{
    static const char *const name[] = {
#define X(type) #type,
        PORTABLE_TYPES(X)
#undef X
    };
    return name[type];
}

void portable_view(struct portable *p, const struct bp_view *view)
{
    p->bytes[p->n_operand] = view ? (uint8_t)portable_bytes(view->dtype) : 0;
    p->operand[p->n_operand++] = view ? (struct portable_operand){view->data, view->memory}
                                      : (struct portable_operand){NULL, NULL};
}

void portable_fault(struct portable *p, const struct bp_launch *launch)
{
    p->faults |= 1u << p->n_operand;
    p->operand[p->n_operand++] = (struct portable_operand){launch->fault, NULL};
}

void portable_workspace(struct portable *p, const struct bp_launch *launch, size_t offset)
{
    p->operand[p->n_operand++] =
        (struct portable_operand){(char *)launch->workspace + offset, launch->workspace_memory};
}

void portable_result(struct portable *p, int64_t *result)
{
    p->results |= 1u << p->n_operand;
    p->operand[p->n_operand++] = (struct portable_operand){result, NULL};
}

struct portable_split portable_split(const struct bp_view *view, int axis)
{
    struct portable_split s = {1, 1, 1};

    for (int a = 0; a < view->rank; a++) {
        if (a < axis) s.outer *= view->shape[a];
        else if (a == axis) s.extent = view->shape[a];
        else s.inner *= view->shape[a];
    }
    return s;
}
