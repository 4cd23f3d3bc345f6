/* SPDX-License-Identifier: Apache-2.0 */
/* module.c: simulates modules, which are tables of functions, and launches of the functions. */
#include "sim.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct function {
    enum sim_magic magic;
    struct sim_device *device; /* the device on which its module was loaded */
    size_t args_size, operands;
    sim_entry *entry;
    char name[96];
};
struct module {
    enum sim_magic magic;
    const struct sim_image *image; /* NULL: a program, whose only function is bp_fused */
    void *object;                  /* of a program: its shared object */
    struct function function[];
};

enum {
    OPERANDS = 24,
    PARAMETERS = 4096
};

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

/* Opens the shared object of a program, which is written to a file of its own: the loader knows an
 * open library by its name. NULL: the object is damaged. */
static void *open_object(const struct sim_program *program)
{
    char path[] = "/tmp/bp-sim-program-XXXXXX";
    const char *object = (const char *)(program + 1);
    size_t size = (size_t)program->size, done = 0;
    int fd = mkostemp(path, O_CLOEXEC);
    void *library = NULL;

    while (fd >= 0 && done < size) {
        ssize_t n = write(fd, object + done, size - done);
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (fd < 0) return NULL;
    close(fd);
    if (done == size) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    return library;
}

/* Under the lock. */
static int module_of_program(struct sim_device *device, const struct sim_program *program,
                             void **out)
{
    struct module *module = malloc(sizeof *module + sizeof *module->function);
    void *object, *entry;

    if (!module) return SIM_OUT_OF_MEMORY;
    object = open_object(program);
    entry = object ? dlsym(object, "sim_compiled_entry") : NULL;
    if (!entry) {
        free(module);
        return SIM_INVALID_IMAGE;
    }
    *module = (struct module){SIM_MODULE, NULL, object};
    module->function[0] = (struct function){SIM_FUNCTION, device, (size_t)program->args_size,
                                            (size_t)program->operands, NULL};
    memcpy(&module->function[0].entry, &entry, sizeof entry);
    sim.live++;
    *out = module;
    return SIM_SUCCESS;
}

int sim_module_load(void **out, const void *p)
{
    const struct sim_image *image = p;
    struct sim_device *device;
    struct module *module;
    size_t n = 0;
    int code = sim_enter_context(SIM_CALL_module_load, &device);

    if (!code && image->magic == SIM_IMAGE_COMPILED)
        return sim_leave(module_of_program(device, p, out));

    if (!code && image->magic == SIM_IMAGE_OF_OTHERS) code = SIM_NO_IMAGE;
    else if (!code && image->magic != SIM_IMAGE) code = SIM_INVALID_IMAGE;
    if (code) return sim_leave(code);
    if (sim.load) take_time();
    while (image->kernel[n].name) n++;
    module = malloc(sizeof *module + n * sizeof *module->function);
    if (!module) return sim_leave(SIM_OUT_OF_MEMORY);
    *module = (struct module){SIM_MODULE, image, NULL};
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
    if (module->object) dlclose(module->object);
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
    if (!module->image && strcmp(name, "bp_fused") == 0) {
        *out = &module->function[0];
        snprintf(module->function[0].name, sizeof module->function[0].name, "%s", name);
        return sim_leave(SIM_SUCCESS);
    }
    for (size_t i = 0; module->image && module->image->kernel[i].name; i++) {
        snprintf(known, sizeof known, "bp_%s_%s", module->image->kernel[i].name,
                 module->image->type);
        if (strcmp(known, name) != 0) continue;
        *out = &module->function[i];
        snprintf(module->function[i].name, sizeof module->function[i].name, "%s", name);
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
    sim_describe(SIM_WORK_KERNEL, launch.function->name, 0);
    return sim_leave(sim_compute(stream, run_launch, &launch,
                                 offsetof(struct launch, parameters) + launch.size));
}
