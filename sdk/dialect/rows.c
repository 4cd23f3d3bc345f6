/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: builds the table of kernel rows of a device's plugin from all portable kernels. The build
 * passes the plugin's name, with -DPORTABLE_PLUGIN="xpu"; and, if libraries of the device's vendor
 * provide rows too, the list of these rows, with -DPORTABLE_LIBRARIES="<gpu/rows.def>":
 *
 *   LIBRARY_ROW(op, variant, function, plan, end, number, T, flags)
 *         a row <plugin>_<op>_<variant> of higher priority, its three functions, its number among
 *         the rows that share them, its dtypes, its flags besides BP_KERNEL_STRIDED;
 *         portable_usable returns whether the library exists
 *
 * A plugin's own kernels are rows too, of higher priority, -DPORTABLE_OWN="<mydev_rows.def>":
 *
 *   OWN_ROW(op, variant, function, T, U, I, R, flags)
 *         a row <plugin>_<op>_<variant>: its launch function, masks of dtypes, bp_kernel_flags
 *   OWN_ROW_PLANNED(op, variant, function, plan, end, T, U, I, R, flags)
 *         the same with prepare and plan_destroy
 *
 * A plugin that provides portable_keep (portable.h) is built with -DPORTABLE_KEEPS.
 *
 * A plugin some of whose devices cannot run all rows is built with -DPORTABLE_USABLE: the core then
 * calls portable_usable for the machine, and portable_accepts, before a row's own prepare, for the
 * device. */
#include "../ops/common/kernel_formulas.h"
#include "portable.h"

typedef enum bp_status plan_function(void *self, const struct bp_prep *prep, struct bp_plan *out);
#ifdef PORTABLE_USABLE
static plan_function prepare_accepted;
#define ACCEPTS .accepts = portable_accepts,
#define PREPARE(plan) _Generic((plan), plan_function *: prepare_accepted, default: NULL)
#else
#define ACCEPTS
#define PREPARE(plan) plan
#endif

#ifdef PORTABLE_KEEPS
#define DESTROY(plan) \
    .plan_destroy = _Generic((plan), plan_function *: portable_kept_destroy, default: NULL),
#else
#define DESTROY(plan)
#endif

static const struct bp_kernel rows[] = {
#ifdef PORTABLE_LIBRARIES
#define LIBRARY_ROW(operator, variant, function, plan, end, number, T, set) \
    {BP_OPROW(operator), .name = PORTABLE_PLUGIN "_" #operator "_" #variant, .types = {T}, \
     .flags = BP_KERNEL_STRIDED | (set), .priority = 100, \
     .launch = function, .prepare = plan, .plan_destroy = end},
#include PORTABLE_LIBRARIES
#endif
#define PORTABLE_ROW(operator, variant, function, plan, number, T, U, I, R, set) \
    {BP_OPROW(operator), .name = PORTABLE_PLUGIN "_" #operator #variant, .types = {T, U, I, R}, \
     .flags = (set), .launch = function, ACCEPTS .prepare = PREPARE(plan), DESTROY(plan)},
#include "rows.def"
#ifdef PORTABLE_OWN
#define OWN_ROW(operator, variant, function, T, U, I, R, set) \
    {BP_OPROW(operator), .name = PORTABLE_PLUGIN "_" #operator "_" #variant, \
     .types = {T, U, I, R}, .flags = (set), .priority = 100, .launch = function},
#define OWN_ROW_PLANNED(operator, variant, function, plan, end, T, U, I, R, set) \
    {BP_OPROW(operator), .name = PORTABLE_PLUGIN "_" #operator "_" #variant, \
     .types = {T, U, I, R}, .flags = (set), .priority = 100, \
     .launch = function, .prepare = plan, .plan_destroy = end},
#include PORTABLE_OWN
#endif
};

#ifdef PORTABLE_USABLE
static plan_function *const plans[] = {
#define PORTABLE_ROW(op, variant, launch, plan, number, T, U, I, R, flags) plan,
#include "rows.def"
};

static enum bp_status prepare_accepted(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    enum bp_status status = portable_accepts(self, prep);

    return status ? status : plans[prep->kernel - rows](self, prep, out);
}
#endif

static const uint8_t numbers[] = {
#ifdef PORTABLE_LIBRARIES
#define LIBRARY_ROW(op, variant, function, plan, end, number, T, flags) number,
#include PORTABLE_LIBRARIES
#endif
#define PORTABLE_ROW(op, variant, launch, prepare, number, T, U, I, R, flags) number,
#include "rows.def"
};

int portable_number(const struct bp_kernel *row)
{
    return numbers[row - rows];
}

const struct bp_kernels portable_rows = {
    .size = sizeof portable_rows,
    .first = rows,
    .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows,
#if defined(PORTABLE_LIBRARIES) || defined(PORTABLE_USABLE)
    .usable = portable_usable,
#endif
};
