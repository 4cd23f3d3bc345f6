/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_device.c: tests the properties that a device reports, and the errors of calls on
 * devices. */
#include "suites.h"
#include <stdio.h>
#include <string.h>

static const uint64_t MOST_MEMORY = UINT64_C(1) << 50; /* 1 PiB */

/* The bits of a mask that belong to no dtype. */
static uint64_t device_unknown(uint64_t dtypes)
{
    for (uint32_t t = 0; t < 64; t++)
        if (bp_dtype_bits(t)) dtypes &= ~(UINT64_C(1) << t);
    return dtypes;
}

/* The size in bytes of the largest element. */
static uint32_t device_largest(uint64_t dtypes)
{
    uint32_t most = 0;

    for (uint32_t t = 0; t < 64; t++)
        if (dtypes >> t & 1 && bp_dtype_bits(t) / 8 > most) most = bp_dtype_bits(t) / 8;
    return most;
}

/* Whether text is a PCI address: four to eight digits of the domain, then two, two and one
 * digits. */
static bool is_place_on_pci(const char *text)
{
    size_t n = strspn(text, "0123456789abcdef");
    const char *rest = text + n;

    return n >= 4 && n <= 8 && strlen(rest) == 8 && rest[0] == ':' && rest[3] == ':' &&
           rest[6] == '.' && strspn(rest, "0123456789abcdef:.") == 8;
}

static void properties_sane(struct check *c, const int64_t *arg)
{
    const struct bp_device_properties *p = &c->fixture->properties;

    (void)arg;
    check_that(c, memchr(p->name, 0, sizeof p->name) && *p->name,
               "properties.name is empty or has no end");
    check_that(c, memchr(p->driver, 0, sizeof p->driver) != NULL, "properties.driver has no end");
    check_that(c, p->alignment && !(p->alignment & (p->alignment - 1)),
               "properties.alignment is %llu, expected a power of two",
               (unsigned long long)p->alignment);
    check_that(c, !p->dtypes || p->alignment >= device_largest(p->dtypes),
               "properties.alignment is %llu, less than an element of %u bytes",
               (unsigned long long)p->alignment, device_largest(p->dtypes));
    check_that(c, !device_unknown(p->dtypes),
               "properties.dtypes is 0x%llx, which has bits of no dtype (0x%llx)",
               (unsigned long long)p->dtypes, (unsigned long long)device_unknown(p->dtypes));
    check_that(c, p->memory < MOST_MEMORY,
               "properties.memory is %llu bytes, more than any device has; 0 says unknown",
               (unsigned long long)p->memory);
    check_that(c, p->dtypes != 0, "properties.dtypes is empty: a device holds at least one dtype");
    check_that(
        c, !(p->flags & ~(uint32_t)(BP_DEVICE_INLINE | BP_DEVICE_HOST_VISIBLE | BP_DEVICE_HANDLES |
                                    BP_DEVICE_GRAPH_ONLY)),
        "properties.flags is 0x%x, which has bits that runtime.h does not define", p->flags);
    check_that(c, !(p->flags & BP_DEVICE_HANDLES && p->flags & BP_DEVICE_HOST_VISIBLE),
               "properties.flags has HANDLES and HOST_VISIBLE: memory without addresses cannot be "
               "visible");
    check_that(c, !*p->pci || is_place_on_pci(p->pci),
               "properties.pci is '%.31s', expected such as 0000:65:00.0", p->pci);
    check_that(c, !p->memory || !p->max_alloc || p->max_alloc <= p->memory,
               "properties.max_alloc is %llu, more than the memory of %llu",
               (unsigned long long)p->max_alloc, (unsigned long long)p->memory);
}

static void properties_short(struct check *c, const int64_t *arg)
{
    struct bp_device_properties p;
    size_t size = offsetof(struct bp_device_properties, units);

    (void)arg;
    memset(&p, 0x5a, sizeof p);
    p.size = size;
    if (!check_ok(c, bp_device_get_properties(c->fixture->device, &p),
                  "bp_device_get_properties with a smaller size"))
        return;
    check_that(c, p.units == 0x5a5a5a5a && p.flags == 0x5a5a5a5a,
               "an answer of %zu bytes was written past its end", size);
    check_that(c, p.dtypes == c->fixture->properties.dtypes,
               "an answer of %zu bytes has other dtypes", size);
}

static void device_name(struct check *c, const int64_t *arg)
{
    const char *name = bp_device_name(c->fixture->device), *colon = strchr(name, ':');

    (void)arg;
    check_that(c, colon && colon > name && colon[1] >= '0' && colon[1] <= '9',
               "the device's name is '%s', expected kind:index", name);
}

static void device_once(struct check *c, const int64_t *arg)
{
    struct bp_device *again = NULL;

    (void)arg;
    /* For a path: by the device's name, the core may open another plugin of this kind. */
    if (strchr(c->fixture->name, '/')) {
        check_skip(c, "the plugin was given by its path");
        return;
    }
    if (!check_ok(c, bp_device_create(c->fixture->core, c->fixture->name, &again),
                  "bp_device_create, again"))
        return;
    check_that(c, again == c->fixture->device, "a device opened twice is two devices");
    bp_device_destroy(again);
}

static void device_beyond(struct check *c, const int64_t *arg)
{
    struct bp_device *device = (struct bp_device *)c;
    char name[96];

    (void)arg;
    snprintf(name, sizeof name, "%.*s:9999", (int)strcspn(bp_device_name(c->fixture->device), ":"),
             bp_device_name(c->fixture->device));
    check_fails(c, bp_device_create(c->fixture->core, name, &device), BP_ERR_NOT_FOUND,
                "bp_device_create of index 9999");
    check_that(c, device == (struct bp_device *)c,
               "a failed bp_device_create wrote its out parameter");
}

static void device_emulated(struct check *c, const int64_t *arg)
{
    struct bp_device_properties properties = {.size = sizeof properties};
    uint32_t bits = bp_device_emulated(c->fixture->device);

    (void)arg;
    check_that(c, bits < 64,
               "bp_device_emulated is 0x%x, which has bits that device.h does not define", bits);
    check_that(c, bits == bp_device_emulated(c->fixture->device),
               "bp_device_emulated differs from call to call");
    check_that(c, !(bits & BP_EMULATED_EVENTS) || bits & BP_EMULATED_STREAM_WAIT,
               "events are emulated but waits of streams for them are not (0x%x)", bits);
    if (!check_ok(c, bp_device_get_properties(c->fixture->device, &properties),
                  "bp_device_get_properties"))
        return;
    check_that(c, !(bits & BP_EMULATED_COLLECTIVES) || !(properties.flags & BP_DEVICE_INLINE),
               "collectives are emulated on a device that works inline (0x%x)", bits);
}

static void device_synchronize(struct check *c, const int64_t *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        if (!check_ok(c, bp_device_synchronize(c->fixture->device), "bp_device_synchronize"))
            return;
}

static void kernels_sane(struct check *c, const int64_t *arg)
{
    uint32_t n = bp_device_kernels(c->fixture->device);
    struct bp_kernel_info info = {.size = sizeof info};

    (void)arg;
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_opinfo *op;
        if (!check_ok(c, bp_device_kernel(c->fixture->device, i, &info), "bp_device_kernel"))
            return;
        op = bp_opinfo_find(info.op);
        if (!check_that(c, op && !strcmp(op->name, info.op), "row %s: there is no operator '%s'",
                        info.name, info.op))
            return;
        if (!check_that(c, !kernel_is_misfit(info.reason), "row %s: %s", info.name, info.reason))
            return;
    }
    check_that(c, bp_device_kernel(c->fixture->device, n, &info) != BP_OK,
               "bp_device_kernel answers past the last row");
}

static void refuses_null(struct check *c, const int64_t *arg)
{
    struct bp_device *device = NULL;
    struct bp_device_properties p = {.size = sizeof p};

    (void)arg;
    check_fails(c, bp_device_create(NULL, "cpu", &device), BP_ERR_INVALID,
                "bp_device_create without a core");
    check_fails(c, bp_device_create(c->fixture->core, NULL, &device), BP_ERR_INVALID,
                "bp_device_create without a name");
    check_fails(c, bp_device_create(c->fixture->core, c->fixture->name, NULL), BP_ERR_INVALID,
                "bp_device_create without out");
    check_fails(c, bp_device_get_properties(NULL, &p), BP_ERR_INVALID,
                "bp_device_get_properties without a device");
    check_fails(c, bp_device_get_properties(c->fixture->device, NULL), BP_ERR_INVALID,
                "bp_device_get_properties without out");
    check_fails(c, bp_device_synchronize(NULL), BP_ERR_INVALID,
                "bp_device_synchronize without a device");
    check_fails(c, bp_device_synchronize((struct bp_device *)c->fixture->stream), BP_ERR_INVALID,
                "bp_device_synchronize of a stream");
    check_that(c, !*bp_device_name(NULL), "bp_device_name(NULL) is '%s', expected ''",
               bp_device_name(NULL));
    bp_device_destroy(NULL);
}

/* The message of each failure describes that failure. */
static void error_text(struct check *c, const int64_t *arg)
{
    struct bp_tensor *tensor = NULL;
    int64_t negative = -3;
    char first[200];

    (void)arg;
    check_fails(c, bp_tensor_create(c->fixture->device, 999, 0, NULL, &tensor), BP_ERR_INVALID,
                "bp_tensor_create of dtype 999");
    snprintf(first, sizeof first, "%s", bp_error_message());
    check_fails(c, bp_tensor_create(c->fixture->device, BP_F32, 1, &negative, &tensor),
                BP_ERR_INVALID, "bp_tensor_create of extent -3");
    check_that(c, strstr(bp_error_message(), "-3") != NULL,
               "the message does not say which extent is wrong: '%s'", bp_error_message());
    check_that(c, strcmp(first, bp_error_message()) != 0,
               "two failures of different kinds have one message: '%s'", first);
}

const struct check_case suite_runtime_device[] = {
    {"properties/sane", properties_sane},
    {"properties/short", properties_short},
    {"device/name", device_name},
    {"device/opened-twice", device_once},
    {"device/index-beyond", device_beyond},
    {"device/emulated", device_emulated},
    {"device/synchronize", device_synchronize},
    {"device/kernels", kernels_sane},
    {"device/null", refuses_null},
    {"error/text", error_text},
    {NULL, NULL},
};
