/* SPDX-License-Identifier: Apache-2.0 */
/* module.c: simulates modules, which are tables of functions, and launches of the functions. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct function {
    enum sim_magic magic;
    struct sim_device *device; /* the device on which its module was loaded */
    size_t args_size, operands;
    sim_entry *entry;
};
struct module {
    enum sim_magic magic;
    const struct sim_image *image;
    struct function function[];
};

enum { OPERANDS = 16, PARAMETERS = 4096 };

/* An enqueued launch. The parameters are the arguments, the count and the operands. */
struct launch {
    const struct function *function;
    size_t size;
    _Alignas(16) unsigned char parameters[PARAMETERS];
};

/* Takes as long as a driver that compiles PTX; other threads call the driver meanwhile. Under the
 * lock, which is released during the pause. */
static void take_time(void)
{
    unsigned load = sim.load;

    pthread_mutex_unlock(&sim.lock);
    nanosleep(&(struct timespec){load / 1000000, (long)(load % 1000000) * 1000}, NULL);
    pthread_mutex_lock(&sim.lock);
}

int sim_module_load(void **out, const void *p)
{
    const struct sim_image *image = p;
    struct sim_device *device;
    struct module *module;
    size_t n = 0;
    int code = sim_enter_context(SIM_CALL_module_load, &device);

    if (!code && image->magic == SIM_IMAGE_OF_OTHERS) code = SIM_NO_IMAGE;
    else if (!code && image->magic != SIM_IMAGE) code = SIM_INVALID_IMAGE;
    if (code) return sim_leave(code);
    if (sim.load) take_time();
    while (image->kernel[n].name) n++;
    module = malloc(sizeof *module + n * sizeof *module->function);
    if (!module) return sim_leave(SIM_OUT_OF_MEMORY);
    *module = (struct module){SIM_MODULE, image};
    for (size_t i = 0; i < n; i++)
        module->function[i] = (struct function){SIM_FUNCTION, device, image->kernel[i].args_size,
                                                image->kernel[i].operands, image->entry[i]};
    sim.live++;
    *out = module;
    return sim_leave(SIM_SUCCESS);
}

int sim_module_unload(void *p)
{
    struct sim_device *device;
    struct module *module = p;
    int code = sim_enter_context(SIM_CALL_module_unload, &device);

    if (module->magic != SIM_MODULE) return sim_leave(SIM_INVALID_HANDLE);
    free(module);
    sim.live--;
    return sim_leave(code);
}

int sim_module_function(void **out, void *p, const char *name)
{
    struct module *module = p;
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_module_function, &device);
    char known[128];

    if (!code && module->magic != SIM_MODULE) code = SIM_INVALID_HANDLE;
    if (code) return sim_leave(code);
    for (size_t i = 0; module->image->kernel[i].name; i++) {
        snprintf(known, sizeof known, "bp_%s_%s", module->image->kernel[i].name,
                 module->image->type);
        if (strcmp(known, name) != 0) continue;
        *out = &module->function[i];
        return sim_leave(SIM_SUCCESS);
    }
    return sim_leave(SIM_NOT_FOUND);
}

/* Converts operands to host addresses. An operand must be an address that the device can access, or
 * NULL. */
static int find_operands(const struct launch *launch, void **out)
{
    const unsigned char *at = launch->parameters + launch->function->args_size + sizeof(int64_t);
    const unsigned char *end = launch->parameters + launch->size;

    for (; at < end; at += sizeof(void *)) {
        void *address;
        memcpy(&address, at, sizeof address);
        *out = address ? sim_reach(address, 0) : NULL;
        if (address && (!*out || !sim_is_reached_by(address, launch->function->device)))
            return SIM_ILLEGAL_ADDRESS;
        out++;
    }
    return SIM_SUCCESS;
}

static int run_launch(void *p, int code)
{
    const struct launch *launch = p;
    void *operand[OPERANDS];
    int64_t count;

    if (!code) code = sim_doomed(SIM_CALL_work);
    if (!code) code = find_operands(launch, operand);
    if (code) return code;
    memcpy(&count, launch->parameters + launch->function->args_size, sizeof count);
    pthread_mutex_unlock(&sim.lock);
    launch->function->entry(launch->parameters, operand, 0, count);
    pthread_mutex_lock(&sim.lock);
    return SIM_SUCCESS;
}

/* Whether a real driver would accept the launch. */
static bool module_is_good(const struct launch *launch, const unsigned *teams,
                           const unsigned *lanes)
{
    size_t head = launch->function->args_size + sizeof(int64_t);

    return teams[0] && teams[1] == 1 && teams[2] == 1 && lanes[0] && lanes[0] <= 1024 &&
           lanes[1] == 1 && lanes[2] == 1 &&
           launch->size == head + launch->function->operands * sizeof(void *) &&
           launch->function->operands <= OPERANDS && launch->size <= PARAMETERS;
}

/* extra: 1, the parameters, 2, their size, 3. */
int sim_launch(void *function, unsigned teams_x, unsigned teams_y, unsigned teams_z,
               unsigned lanes_x, unsigned lanes_y, unsigned lanes_z, unsigned local, void *stream,
               void **parameters, void **extra)
{
    unsigned teams[3] = {teams_x, teams_y, teams_z}, lanes[3] = {lanes_x, lanes_y, lanes_z};
    struct launch launch = {.function = function};
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_launch, &device);

    if (!code && (launch.function->magic != SIM_FUNCTION || launch.function->device != device ||
                  sim_device_of(stream) != device))
        code = SIM_INVALID_HANDLE;
    if (!code && (parameters || local || extra[0] != (void *)1 || extra[2] != (void *)2 ||
                  extra[4] != (void *)3))
        code = SIM_INVALID_VALUE;
    if (code) return sim_leave(code);
    launch.size = *(size_t *)extra[3];
    if (!module_is_good(&launch, teams, lanes)) return sim_leave(SIM_INVALID_VALUE);
    memcpy(launch.parameters, extra[1], launch.size);
    return sim_leave(sim_submit(stream, run_launch, &launch,
                                offsetof(struct launch, parameters) + launch.size));
}
