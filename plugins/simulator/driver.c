/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c: begins and ends every simulated driver call, injects failures, and simulates devices
 * and contexts. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sim sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static const char *const call_name[] = {
#define CALL(name, cuda, hip, parameters) #name,
#include "gpu/calls.def"
#define CALL(result, verb, parameters) "cublasLt" #verb,
#include "gpu/blaslt.def"
#define CALL(result, verb, parameters) "hipblasLt" #verb,
#define CALL_OF_ONE(result, verb, parameters)
#include "gpu/blaslt.def"
#define CALL(result, name, parameters) #name,
#include "gpu/cudnn.def"
#define CALL(result, name, parameters) #name,
#include "gpu/rocblas.def"
#define CALL(result, name, parameters) #name,
#include "gpu/nccl.def"
#define CALL(result, name, nvrtc, hiprtc, parameters) #nvrtc, #hiprtc,
#include "gpu/rtc.def"
#define CALL(name, parameters) #name,
#include "gpu/cupti.def"
#define CALL(result, name, parameters) #name,
#include "gpu/roctracer.def"
    "work",
};

/* The calls that are set to fail. */
enum {
    DOOMED_MAX = 8
};
static struct doomed {
    unsigned n; /* fails at the n-th call from now */
    int call, code;
} doomed[DOOMED_MAX];

static _Thread_local struct sim_device *current;

static uint64_t driver_setting(const char *name, uint64_t otherwise)
{
    const char *text = secure_getenv(name);

    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void read_doomed(void)
{
    const char *text = secure_getenv("BP_SIM_FAIL");
    char name[64];

    memset(doomed, 0, sizeof doomed);
    for (int i = 0; text && *text && i < DOOMED_MAX; i++) {
        struct doomed d = {0};
        if (sscanf(text, "%63[^:]:%u:%d", name, &d.n, &d.code) != 3) break;
        while (d.call < SIM_CALLS && strcmp(call_name[d.call], name) != 0) d.call++;
        doomed[i] = d;
        text = strchr(text, ',');
        if (text) text++;
    }
}

int sim_doomed(enum sim_call call)
{
    for (int i = 0; i < DOOMED_MAX; i++)
        if (doomed[i].call == (int)call && doomed[i].n && !--doomed[i].n) return doomed[i].code;
    return SIM_SUCCESS;
}

int sim_enter(enum sim_call call)
{
    int code;

    pthread_mutex_lock(&sim.lock);
    if (call == SIM_CALL_initialise) read_doomed();
    code = sim_doomed(call);
    if (code) return code;
    return sim.ready || call == SIM_CALL_initialise ? SIM_SUCCESS : SIM_NOT_INITIALISED;
}

int sim_enter_context(enum sim_call call, struct sim_device **out)
{
    int code = sim_enter(call);

    if (code) return code;
    if (!current || !current->refs) return SIM_INVALID_CONTEXT;
    *out = current;
    return current->sticky;
}

int sim_leave(int code)
{
    pthread_mutex_unlock(&sim.lock);
    return code;
}

/* The text of a code that plugins/gpu does not know. This call never fails otherwise. */
int sim_error_text(int code, const char **out)
{
    *out = code == SIM_OWN ? "a failure of the simulator alone" : NULL;
    return *out ? SIM_SUCCESS : SIM_INVALID_VALUE;
}

size_t sim_live(void)
{
    size_t live;

    pthread_mutex_lock(&sim.lock);
    live = sim.live;
    pthread_mutex_unlock(&sim.lock);
    return live;
}

size_t sim_computed(void)
{
    size_t computed;

    pthread_mutex_lock(&sim.lock);
    computed = sim.computed;
    pthread_mutex_unlock(&sim.lock);
    return computed;
}

size_t sim_spun(void)
{
    size_t spun;

    pthread_mutex_lock(&sim.lock);
    spun = sim.spun;
    pthread_mutex_unlock(&sim.lock);
    return spun;
}

void sim_observe(const struct sim_observer *observer)
{
    pthread_mutex_lock(&sim.lock);
    sim.observer = observer;
    pthread_mutex_unlock(&sim.lock);
}

uint64_t sim_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void sim_called(enum sim_work work, const struct sim_device *device, uint32_t stream,
                uint64_t bytes, uint64_t begin)
{
    const struct sim_about about = {.work = work, .bytes = bytes};

    if (sim.observer)
        sim.observer->ended(&(struct sim_observed){&about, device, stream, 0, begin, sim_now()});
}

int sim_initialise(unsigned flags)
{
    int code = sim_enter(SIM_CALL_initialise);

    if (code || flags) return sim_leave(code ? code : SIM_INVALID_VALUE);
    sim.n_device = (int)driver_setting("BP_SIM_DEVICES", 1);
    sim.memory = driver_setting("BP_SIM_MEMORY", UINT64_C(1) << 30);
    sim.delay = (unsigned)driver_setting("BP_SIM_DELAY", 50);
    sim.seed = (unsigned)driver_setting("BP_SIM_SEED", 1);
    sim.load = (unsigned)driver_setting("BP_SIM_LOAD", 0);
    sim.ready = true;
    return sim_leave(SIM_SUCCESS);
}

int sim_driver_version(int *out)
{
    int code = sim_enter(SIM_CALL_driver_version);

    if (!code) *out = 1000;
    return sim_leave(code);
}

int sim_device_count(int *out)
{
    int code = sim_enter(SIM_CALL_device_count);

    if (!code) *out = sim.n_device;
    return sim_leave(code);
}

/* Begins a call on a device that needs no context. */
static int enter_device(enum sim_call call, int device)
{
    int code = sim_enter(call);

    return code || (device >= 0 && device < sim.n_device) ? code : SIM_INVALID_DEVICE;
}

int sim_device_get(int *out, int number)
{
    int code = enter_device(SIM_CALL_device_get, number);

    if (!code) *out = number;
    return sim_leave(code);
}

int sim_device_name(char *out, int size, int device)
{
    int code = enter_device(SIM_CALL_device_name, device);

    if (!code) snprintf(out, (size_t)size, "simulated GPU");
    return sim_leave(code);
}

int sim_device_memory(size_t *out, int device)
{
    int code = enter_device(SIM_CALL_device_memory, device);

    if (!code) *out = sim.memory;
    return sim_leave(code);
}

static int arch_of(int device)
{
    const char *text = secure_getenv("BP_SIM_ARCH");

    for (; text && device > 0 && strchr(text, ','); device--) text = strchr(text, ',') + 1;
    return text && *text ? atoi(text) : 20;
}

/* Attributes 1: units; 2, 3: the architecture; 4, 5: managed memory, and managed memory while
 * kernels run. */
int sim_device_attribute(int *out, int attribute, int device)
{
    int code = enter_device(SIM_CALL_device_attribute, device);

    if (!code && (attribute < 1 || attribute > 5)) code = SIM_INVALID_VALUE;
    if (!code)
        *out = attribute == 1   ? 2
               : attribute == 2 ? arch_of(device) / 10
               : attribute == 3 ? arch_of(device) % 10
                                : driver_setting("BP_SIM_MANAGED", 2) >= (uint64_t)attribute - 3;
    return sim_leave(code);
}

int sim_device_uuid(void *out, int device)
{
    int code = enter_device(SIM_CALL_device_uuid, device);

    if (!code) snprintf(out, 16, "simulated GPU %c", '0' + device);
    return sim_leave(code);
}

int sim_device_pci(char *out, int size, int device)
{
    int code = enter_device(SIM_CALL_device_pci, device);

    if (!code) snprintf(out, (size_t)size, "0000:%02X:00.0", 0x1a + device);
    return sim_leave(code);
}

/* The description stays empty. */
int sim_device_description(void *out, int device)
{
    (void)out;
    return sim_leave(enter_device(SIM_CALL_device_description, device));
}

int sim_context_retain(void **out, int device)
{
    int code = enter_device(SIM_CALL_context_retain, device);

    if (!code) {
        *out = &sim.device[device];
        sim.live += !sim.device[device].refs++;
    }
    return sim_leave(code);
}

/* Releasing the last reference clears the context's sticky failure. A call that is set to fail
 * releases the object even so, here as in all calls that release: so that tests can detect
 * leaks. */
int sim_context_release(int device)
{
    int code = enter_device(SIM_CALL_context_release, device);

    if (device < 0 || device >= sim.n_device || !sim.device[device].refs)
        return sim_leave(SIM_INVALID_DEVICE);
    if (!--sim.device[device].refs) {
        sim.device[device].sticky = SIM_SUCCESS;
        sim.device[device].peers = 0;
        sim.device[device].flags = 0;
        sim.live--;
    }
    return sim_leave(code);
}

int sim_context_get(void **out)
{
    int code = sim_enter(SIM_CALL_context_get);

    if (!code) *out = current;
    return sim_leave(code);
}

int sim_context_flags(unsigned flags)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_context_flags, &device);

    if (!code && flags != 4) code = SIM_INVALID_VALUE;
    if (!code) device->flags = flags;
    return sim_leave(code);
}

int sim_context_set(void *context)
{
    int code = sim_enter(SIM_CALL_context_set);

    if (!code) current = context;
    return sim_leave(code);
}
