/* SPDX-License-Identifier: Apache-2.0 */
/* guard_pages.c: maps host memory between inaccessible pages and imports it as a tensor through
 * DLPack. */
#include "guard_pages.h"
#include <ops/common/reference_number.h>
#include <backplane/dlpack.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FORBIDDEN = 1 << 20, HOST_MEMORY = 1 }; /* FORBIDDEN: bytes on each side; HOST_MEMORY: the
                                                  DLPack device */

struct pages {
    struct bp_dlpack_managed managed;
    char *map;
    size_t size; /* of the whole mapping */
    int64_t n;
};

static void guard_pages_release(struct bp_dlpack_managed *managed)
{
    struct pages *p = managed->manager_ctx;

    munmap(p->map, p->size);
    free(p);
}

static bool find_code(const struct num_type *type, struct bp_dlpack_dtype *out)
{
    static const uint8_t codes[] = {[NUM_BOOL] = BP_DLPACK_BOOL,
                                    [NUM_SIGNED] = BP_DLPACK_INT,
                                    [NUM_UNSIGNED] = BP_DLPACK_UINT,
                                    [NUM_FLOAT] = BP_DLPACK_FLOAT,
                                    [NUM_COMPLEX] = BP_DLPACK_COMPLEX};

    switch (type->dtype) {
    case BP_BF16: out->code = BP_DLPACK_BFLOAT; break;
    case BP_F8E4M3: out->code = BP_DLPACK_F8E4M3; break;
    case BP_F8E5M2: out->code = BP_DLPACK_F8E5M2; break;
    case BP_F8E8M0: out->code = BP_DLPACK_F8E8M0; break;
    case BP_F8E4M3FNUZ: out->code = BP_DLPACK_F8E4M3FNUZ; break;
    case BP_F8E5M2FNUZ: out->code = BP_DLPACK_F8E5M2FNUZ; break;
    default: out->code = codes[type->class]; break;
    }
    out->bits = (uint8_t)(8 * type->size);
    out->lanes = 1;
    return bp_dtype_bits(type->dtype) == 8 * type->size;
}

/* Maps the pages of a tensor, and finds the address at which the tensor begins. */
static struct pages *map_pages(size_t bytes, bool at_end, char **out_data)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + page - 1) / page * page;
    struct pages *p = calloc(1, sizeof *p);

    if (!p) return NULL;
    p->size = inner + 2 * (size_t)FORBIDDEN;
    p->map = mmap(NULL, p->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p->map == MAP_FAILED || mprotect(p->map + FORBIDDEN, inner, PROT_READ | PROT_WRITE)) {
        if (p->map != MAP_FAILED) munmap(p->map, p->size);
        free(p);
        return NULL;
    }
    *out_data = p->map + FORBIDDEN + (at_end ? inner - bytes : 0);
    return p;
}

struct bp_tensor *guard_pages_tensor(struct bp_device *device, uint32_t dtype, int64_t n,
                                     bool at_end)
{
    struct bp_device_properties properties = {.size = sizeof properties};
    const char *colon = strchr(bp_device_name(device), ':');
    struct bp_tensor *tensor = NULL;
    struct bp_dlpack_dtype type;
    struct pages *p;
    char *data;

    if (n <= 0 || !colon || bp_device_get_properties(device, &properties) ||
        properties.dlpack_type != HOST_MEMORY || !find_code(num_type(dtype), &type))
        return NULL;
    p = map_pages((size_t)n * num_type(dtype)->size, at_end, &data);
    if (!p) return NULL;
    p->n = n;
    p->managed = (struct bp_dlpack_managed){
        .version = {BP_DLPACK_MAJOR, BP_DLPACK_MINOR},
        .manager_ctx = p,
        .deleter = guard_pages_release,
        .tensor = {.data = data,
                   .device = {HOST_MEMORY, (int32_t)strtol(colon + 1, NULL, 10)},
                   .ndim = 1,
                   .dtype = type,
                   .shape = &p->n},
    };
    if (bp_tensor_from_dlpack(device, &p->managed, &tensor)) {
        guard_pages_release(&p->managed);
        return NULL;
    }
    return tensor;
}
