/* SPDX-License-Identifier: Apache-2.0 */
/* module.c: implements the modules of a stand-in: the kernels that a reader found in an image, and
 * the simulator's module of these kernels. A launch must fit the image, and a caller must free all
 * objects before it releases the last context. */
#include "standin.h"
#include <stdlib.h>
#include <string.h>

struct function {
    const struct standin_kernel *kernel;
    void *sim; /* NULL: not requested yet */
};
struct module {
    struct standin_image image;
    void *sim; /* NULL: no kernel of the image is compiled as C */
    struct function function[];
};

/* Loads a program that the stand-in for NVRTC or hiprtc compiled: its only kernel is bp_fused, and
 * the image states the sizes of the parameters. */
static int module_of_program(void **out, const struct sim_program *program)
{
    const struct standin_kernel kernel = {
        .name = "bp_fused",
        .size = (size_t)(program->args_size + (program->operands + 1) * sizeof(int64_t)),
        .lanes = STANDIN_LANES};
    struct module *module = calloc(1, sizeof *module + sizeof *module->function);
    int code = module ? standin_add(&module->image, &kernel) : SIM_OUT_OF_MEMORY;

    if (!code) code = sim_module_load(&module->sim, program);
    if (code) {
        if (module) standin_forget(&module->image);
        free(module);
        return code;
    }
    module->function[0].kernel = module->image.kernel;
    *out = module;
    return SIM_SUCCESS;
}

/* Whether a module is a program, of which nothing is compiled as C in advance. */
static bool is_program(const struct module *module)
{
    return !strcmp(module->image.kernel[0].name, "bp_fused");
}

/* Loads the simulator's module with the kernels of an image. */
static int load_compiled(struct module *module)
{
    const struct sim_image *compiled = NULL;

    for (size_t i = 0; i < module->image.n && !compiled; i++)
        compiled = standin_compiled(module->image.kernel[i].name, NULL);
    return compiled ? sim_module_load(&module->sim, compiled) : SIM_SUCCESS;
}

int standin_module_load(void **out, const void *image)
{
    struct standin_image found = {0};
    struct module *module;
    int code;

    if (((const struct sim_program *)image)->magic == SIM_IMAGE_COMPILED)
        return module_of_program(out, image);
    code = standin_read(image, &found);
    if (code) return code;
    module = calloc(1, sizeof *module + found.n * sizeof *module->function);
    if (!module) {
        standin_forget(&found);
        return SIM_OUT_OF_MEMORY;
    }
    module->image = found;
    for (size_t i = 0; i < found.n; i++) module->function[i].kernel = &found.kernel[i];
    code = load_compiled(module);
    if (!code) {
        *out = module;
        return SIM_SUCCESS;
    }
    standin_forget(&module->image);
    free(module);
    return code;
}

int standin_module_unload(void *p)
{
    struct module *module = p;
    int code = module->sim ? sim_module_unload(module->sim) : SIM_SUCCESS;

    standin_forget(&module->image);
    free(module);
    return code;
}

int standin_module_function(void **out, void *p, const char *name)
{
    const struct sim_image *compiled;
    struct module *module = p;
    size_t i = 0, k = 0;
    int code;

    while (i < module->image.n && strcmp(module->image.kernel[i].name, name) != 0) i++;
    if (i == module->image.n)
        return standin_refuse(SIM_NOT_FOUND, "no kernel %s in an image that has %zu, among them %s",
                              name, module->image.n, module->image.kernel[0].name);
    compiled = is_program(module) ? NULL : standin_compiled(name, &k);
    if (!compiled && !is_program(module))
        return standin_refuse(SIM_NOT_FOUND, "no kernel %s is compiled as C", name);
    code = compiled ? standin_fits(module->function[i].kernel, &compiled->kernel[k]) : 0;
    if (code) return code;
    code = sim_module_function(&module->function[i].sim, module->sim, name);
    if (!code) *out = &module->function[i];
    return code;
}

/* Refuses a launch that a driver, or the kernel's code, would not accept. */
static int module_check(const struct standin_kernel *kernel, unsigned teams, unsigned lanes,
                        void **extra)
{
    size_t size;

    if (!extra || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != standin.end)
        return standin_refuse(SIM_INVALID_VALUE,
                              "%s is launched with a list that does not end "
                              "with %p",
                              kernel->name, standin.end);
    size = *(size_t *)extra[3];
    if (size != kernel->size)
        return standin_refuse(SIM_INVALID_VALUE,
                              "%s is launched with %zu bytes of arguments; its "
                              "image takes %zu",
                              kernel->name, size, kernel->size);
    if (lanes != STANDIN_LANES)
        return standin_refuse(SIM_INVALID_VALUE,
                              "%s is launched with teams of %u lanes; it is "
                              "compiled for %d",
                              kernel->name, lanes, STANDIN_LANES);
    if (!teams || (uint64_t)teams * lanes >= standin.most)
        return standin_refuse(SIM_INVALID_VALUE, "%s is launched with %u teams of %u lanes",
                              kernel->name, teams, lanes);
    return SIM_SUCCESS;
}

int standin_launch(void *p, unsigned teams_x, unsigned teams_y, unsigned teams_z, unsigned lanes_x,
                   unsigned lanes_y, unsigned lanes_z, unsigned local, void *stream,
                   void **parameters, void **extra)
{
    struct function *function = p;
    void *list[5];
    int code = module_check(function->kernel, teams_x, lanes_x, extra);

    if (code) return code;
    memcpy(list, extra, sizeof list);
    list[4] = (void *)3; /* the simulator's mark for the end of a list */
    return sim_launch(function->sim, teams_x, teams_y, teams_z, lanes_x, lanes_y, lanes_z, local,
                      stream, parameters, list);
}

/* A real driver frees the objects of a context with it, without a message; the stand-in reports
 * them. */
int standin_context_release(int device)
{
    int code = sim_context_release(device);
    size_t live = sim_live();

    for (size_t i = 0; i < sizeof sim.device / sizeof *sim.device; i++)
        if (sim.device[i].refs) return code;
    if (live)
        standin_refuse(code, "the last context is given back while %zu things in it are not", live);
    return code;
}
