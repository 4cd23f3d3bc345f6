/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: selects the OpenCL devices that the plugin offers, and reports their properties.
 *
 * BP_XPU_DEVICES is a list of patterns (fnmatch), separated by commas. A device is admitted if its
 * name, its platform's name, or "platform/device" matches a pattern. Without the variable, GPUs and
 * accelerators are admitted: processors have the cpu plugin. */
#include "fused.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { PLATFORMS = 16, DEVICES = 64, NAME = 128 };

static uint64_t device_info_of(const struct xpu *self, cl_device_id id, cl_device_info what)
{
    cl_ulong value = 0;

    self->call->clGetDeviceInfo(id, what, sizeof value, &value, NULL);
    return value;
}

bool xpu_device_extends(const struct xpu_device *d, const char *extension)
{
    const struct xpu_calls *call = d->self->call;
    size_t size = 0, length = strlen(extension);
    bool found = false;
    char *all;

    if (call->clGetDeviceInfo(d->id, CL_DEVICE_EXTENSIONS, 0, NULL, &size) != CL_SUCCESS)
        return false;
    all = calloc(1, size + 1);
    if (!all) return false;
    call->clGetDeviceInfo(d->id, CL_DEVICE_EXTENSIONS, size, all, NULL);
    for (char *at = all; (at = strstr(at, extension)); at += length)
        found |= (at == all || at[-1] == ' ') && (!at[length] || at[length] == ' ');
    free(all);
    return found;
}

/* Variables for tests: BP_XPU_FP64=0 makes devices compute like those without 64-bit floating-point
 * numbers; BP_XPU_TEAMS=1 makes processors run kernels in teams of many lanes, as GPUs do. */
static bool device_is_set(const char *name, const char *value)
{
    const char *set = secure_getenv(name);

    return set && !strcmp(set, value);
}

/* Whether the device is a processor, whose teams have one lane. */
static bool is_processor(const struct xpu *self, cl_device_id id)
{
    return device_info_of(self, id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU &&
           !device_is_set("BP_XPU_TEAMS", "1");
}

/* The maximum number of lanes of a team, for devices whose teams have many lanes; 0: the device has
 * too few. */
static size_t lanes_of(const struct xpu *self, cl_device_id id)
{
    size_t most = (size_t)device_info_of(self, id, CL_DEVICE_MAX_WORK_GROUP_SIZE),
           lanes = XPU_LANES;

    while (lanes > most && lanes > XPU_LANES_FEWEST) lanes /= 2;
    return lanes > most ? 0 : lanes;
}

/* The reason why the device cannot run teams of many lanes, or NULL. Teams of one lane have no
 * requirements. */
static const char *is_unfit_for_teams(const struct xpu *self, cl_device_id id)
{
    if (is_processor(self, id)) return NULL;
    if (!lanes_of(self, id)) return "its work-groups have less than 64 items";
    if (device_info_of(self, id, CL_DEVICE_LOCAL_MEM_SIZE) < 32 << 10)
        return "its work-groups have less than 32 KiB of memory";
    return NULL;
}

/* The reason why the device cannot run portable kernels, or NULL. They need OpenCL 1.2 with a
 * compiler, 64-bit integers and addresses, little-endian memory, and work-groups for the kernels'
 * teams. 16-bit floating-point numbers are computed by integers, and 64-bit ones may be missing. */
static const char *is_unfit(const struct xpu *self, cl_device_id id)
{
    cl_bool compiler = CL_FALSE, little_endian = CL_FALSE;
    char version[NAME] = "", profile[NAME] = "";
    int major = 0, minor = 0;

    self->call->clGetDeviceInfo(id, CL_DEVICE_VERSION, NAME - 1, version, NULL);
    if (sscanf(version, "OpenCL %d.%d", &major, &minor) != 2 || major * 10 + minor < 12)
        return "its driver is older than OpenCL 1.2";
    self->call->clGetDeviceInfo(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL);
    self->call->clGetDeviceInfo(id, CL_DEVICE_ENDIAN_LITTLE, sizeof little_endian, &little_endian,
                                NULL);
    if (!compiler) return "it has no compiler";
    if (!little_endian) return "it is big-endian";
    self->call->clGetDeviceInfo(id, CL_DEVICE_PROFILE, NAME - 1, profile, NULL);
    if (!strcmp(profile, "EMBEDDED_PROFILE"))
        return "it has the embedded profile, in which 64-bit integers may be missing";
    if (device_info_of(self, id, CL_DEVICE_ADDRESS_BITS) != 64)
        return "its addresses are not of 64 bits";
    return is_unfit_for_teams(self, id);
}

static bool is_named(const char *list, const char *platform, const char *device)
{
    char both[2 * NAME], pattern[2 * NAME];

    snprintf(both, sizeof both, "%s/%s", platform, device);
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
        if (!fnmatch(pattern, both, 0) || !fnmatch(pattern, device, 0) ||
            !fnmatch(pattern, platform, 0))
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static bool is_admitted(const struct xpu *self, cl_platform_id platform, cl_device_id id)
{
    const char *list = secure_getenv("BP_XPU_DEVICES"), *why;
    char platform_name[NAME] = "", name[NAME] = "";
    cl_device_type type = 0;

    self->call->clGetPlatformInfo(platform, CL_PLATFORM_NAME, NAME, platform_name, NULL);
    self->call->clGetDeviceInfo(id, CL_DEVICE_NAME, NAME, name, NULL);
    self->call->clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    platform_name[NAME - 1] = name[NAME - 1] = 0;
    if (list && *list) {
        if (!is_named(list, platform_name, name)) return false;
    } else if (!(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR))) {
        return false;
    }
    why = is_unfit(self, id);
    if (why) bp_log(self->host, BP_LOG_WARN, "xpu: %s is left out: %s", name, why);
    return !why;
}

/* Whether host and device see each other's writes to memory that stays mapped: they share one
 * memory, and no cache between them needs a new mapping to be flushed. This holds for processors.
 * Other devices must report fine-grain buffer sharing (of OpenCL 2.0: older drivers do not know the
 * query). */
static bool is_coherent(const struct xpu *self, cl_device_id id, cl_device_type type)
{
    enum { SVM_CAPABILITIES = 0x1053, SVM_FINE_GRAIN_BUFFER = 1 << 1 };
    cl_bool unified = CL_FALSE;
    cl_bitfield svm = 0;

    self->call->clGetDeviceInfo(id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, NULL);
    if (self->call->clGetDeviceInfo(id, SVM_CAPABILITIES, sizeof svm, &svm, NULL) != CL_SUCCESS)
        svm = 0;
    return unified && (type & CL_DEVICE_TYPE_CPU || svm & SVM_FINE_GRAIN_BUFFER);
}

/* Whether kernels should use blocks in the team's local memory. On devices where local memory is
 * only a part of global memory, as Mali's, blocks only cost time. PoCL reports such memory for a
 * processor, on which blocks are for tests. A team with fewer lanes than a block would load the
 * block again for each group of lanes. */
static bool has_blocks(const struct xpu_device *d, cl_device_type type)
{
    cl_device_local_mem_type memory = 0;

    d->self->call->clGetDeviceInfo(d->id, CL_DEVICE_LOCAL_MEM_TYPE, sizeof memory, &memory, NULL);
    return d->lanes == XPU_LANES && (type & CL_DEVICE_TYPE_CPU || memory == CL_LOCAL);
}

/* The maximum work of one launch. Drivers of GPUs that show a screen take a launch of a second or
 * more for a hang, and reset the device. A slow GPU computes this many additions in less time.
 * BP_XPU_LAUNCH_WORK sets another number, for tests. */
static double launch_work(cl_device_type type)
{
    const char *set = secure_getenv("BP_XPU_LAUNCH_WORK");

    if (set) return strtod(set, NULL);
    return type & CL_DEVICE_TYPE_CPU ? 0 : 1e10;
}

/* Intel's compiler uses 32-bit offsets in a buffer unless an option requests more. */
static bool has_large_buffers(const struct xpu_device *d, cl_device_type type)
{
    enum { INTEL = 0x8086 };

    return !(type & CL_DEVICE_TYPE_CPU) &&
           device_info_of(d->self, d->id, CL_DEVICE_VENDOR_ID) == INTEL &&
           device_info_of(d->self, d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE) > UINT64_C(1) << 32;
}

/* Sets the properties and compiler options. Divisions and roots round as in IEEE 754 if the device
 * can do it; the tolerances assume this. On a device without f64, every literal in the sources is
 * an f32. */
static void set_options(struct xpu_device *d)
{
    const struct xpu_calls *call = d->self->call;
    cl_device_fp_config f32 = 0, f64 = 0;
    cl_device_type type = 0;

    call->clGetDeviceInfo(d->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof f32, &f32, NULL);
    call->clGetDeviceInfo(d->id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    call->clGetDeviceInfo(d->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof f64, &f64, NULL);
    d->is_processor = is_processor(d->self, d->id);
    d->lanes = d->is_processor ? 1 : lanes_of(d->self, d->id);
    d->has_blocks = has_blocks(d, type);
    d->has_f64 = f64 && !device_is_set("BP_XPU_FP64", "0");
    d->has_host_memory = is_coherent(d->self, d->id, type);
    d->units = (uint32_t)device_info_of(d->self, d->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    d->launch_work = launch_work(type);
    d->parameters = 1024; /* the minimum that every driver supports */
    call->clGetDeviceInfo(d->id, CL_DEVICE_MAX_PARAMETER_SIZE, sizeof d->parameters,
                          &d->parameters, NULL);
    snprintf(d->options, sizeof d->options, "-cl-std=CL1.2%s%s%s%s",
             f32 & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? " -cl-fp32-correctly-rounded-divide-sqrt"
                                                       : "",
             d->is_processor ? " -DON_PROCESSOR" : "",
             d->has_f64 ? "" : " -DNO_F64 -cl-single-precision-constant",
             has_large_buffers(d, type) ? " -cl-intel-greater-than-4GB-buffer-required" : "");
}

/* Adds a device with its own context: drivers keep a buffer in the memory of every device of its
 * context. */
static enum bp_status device_add(struct xpu *self, cl_platform_id platform, cl_device_id id)
{
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    struct xpu_device *d = &self->device[self->n_device];
    void *common;
    enum bp_status status;
    cl_int code;

    *d = (struct xpu_device){
        .self = self, .platform = platform, .id = id, .number = self->n_device,
        .report = {self->host, "xpu", self->n_device}};
    d->context = self->call->clCreateContext(properties, 1, &id, NULL, NULL, &code);
    if (!d->context) return xpu_fail(d, "clCreateContext", code);
    set_options(d);
    pthread_mutex_init(&d->streams.lock, NULL);
    xpu_programs_init(d);
    pthread_mutex_init(&d->fused_lock, NULL);
    pthread_mutex_init(&d->kept_lock, NULL);
    xpu_profile_init(d);
    status = xpu_stream_create(self, d->number, &common);
    if (status) {
        xpu_fused_finish(d);
        xpu_programs_finish(d);
        xpu_profile_finish(d);
        pthread_mutex_destroy(&d->streams.lock);
        self->call->clReleaseContext(d->context);
        return status;
    }
    d->common = common;
    self->n_device++;
    return BP_OK;
}

/* Adds a platform's devices. A device that cannot be opened does not stop the others. Returns the
 * first failure, or BP_OK. */
static enum bp_status add_platform(struct xpu *self, cl_platform_id platform)
{
    cl_device_id id[DEVICES];
    cl_uint found = 0;
    cl_int code = self->call->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES, id, &found);
    enum bp_status first = BP_OK;

    if (code != CL_SUCCESS) return BP_OK; /* a driver without hardware */
    if (found > DEVICES) found = DEVICES;
    for (cl_uint i = 0; i < found && self->n_device < DEVICES; i++) {
        char name[NAME] = "";
        enum bp_status status;
        if (!is_admitted(self, platform, id[i])) continue;
        status = device_add(self, platform, id[i]);
        if (!status) continue;
        first = first ? first : status;
        self->call->clGetDeviceInfo(id[i], CL_DEVICE_NAME, NAME - 1, name, NULL);
        bp_log(self->host, BP_LOG_WARN, "xpu: %s cannot be opened", name);
    }
    return first;
}

static enum bp_status add_platforms(struct xpu *self, const cl_platform_id *platform, cl_uint n)
{
    enum bp_status first = BP_OK;

    for (cl_uint i = 0; i < n; i++) {
        enum bp_status status = add_platform(self, platform[i]);
        first = first ? first : status;
    }
    return self->n_device ? BP_OK : first;
}

/* Writes the names of all devices of a platform, "platform/device, " each, to names. Returns the
 * number of bytes in use. */
static size_t list_names(const struct xpu *self, cl_platform_id platform, char *names, size_t used,
                         size_t size)
{
    cl_device_id id[DEVICES];
    char platform_name[NAME] = "";
    cl_uint found = 0;

    if (self->call->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES, id, &found) != CL_SUCCESS)
        return used;
    self->call->clGetPlatformInfo(platform, CL_PLATFORM_NAME, NAME - 1, platform_name, NULL);
    for (cl_uint i = 0; i < found && i < DEVICES && used + 3 * NAME < size; i++) {
        char name[NAME] = "";
        self->call->clGetDeviceInfo(id[i], CL_DEVICE_NAME, NAME - 1, name, NULL);
        used += (size_t)snprintf(names + used, size - used, "%s%s/%s", used ? ", " : "",
                                 platform_name, name);
    }
    return used;
}

/* Refuses to start without a device although the driver has some, which are left out. */
static enum bp_status refuse_others(const struct xpu *self, const cl_platform_id *platform,
                                    cl_uint n)
{
    const char *list = secure_getenv("BP_XPU_DEVICES");
    bool chosen = list && *list;
    char names[8 * NAME] = "";
    size_t used = 0;

    for (cl_uint i = 0; i < n; i++) used = list_names(self, platform[i], names, used, sizeof names);
    if (!used) return BP_OK; /* the driver has no device */
    return bp_fail(self->host, BP_ERR_ABSENT,
                   "xpu: %s%.100s%s; OpenCL has: %s; BP_XPU_DEVICES names those to use, by "
                   "patterns separated by commas, '*' for all",
                   chosen ? "BP_XPU_DEVICES=" : "no GPU or accelerator", chosen ? list : "",
                   chosen ? " fits no device that can be used" : "", names);
}

/* A missing platform has its own error code (-1001). */
enum bp_status xpu_devices_init(struct xpu *self)
{
    cl_platform_id platform[PLATFORMS];
    cl_uint n = 0;
    cl_int code = self->call->clGetPlatformIDs(PLATFORMS, platform, &n);
    enum bp_status status = BP_OK;

    if (code != CL_SUCCESS || !n)
        return bp_fail(self->host, BP_ERR_ABSENT, "xpu: no OpenCL driver is installed (%s)",
                       xpu_opencl_name(code));
    self->device = calloc(DEVICES, sizeof *self->device);
    if (!self->device)
        status = bp_fail(self->host, BP_ERR_MEMORY, "xpu: no memory for devices");
    if (n > PLATFORMS) n = PLATFORMS;
    if (status == BP_OK) status = add_platforms(self, platform, n);
    if (status == BP_OK && !self->n_device) status = refuse_others(self, platform, n);
    if (status) xpu_devices_finish(self);
    return status;
}

void xpu_devices_finish(struct xpu *self)
{
    for (uint32_t i = 0; i < self->n_device; i++) {
        xpu_stream_destroy(self, i, self->device[i].common);
        xpu_fused_finish(&self->device[i]);
        xpu_programs_finish(&self->device[i]);
        xpu_profile_finish(&self->device[i]);
        pthread_mutex_destroy(&self->device[i].streams.lock);
        self->call->clReleaseContext(self->device[i].context);
    }
    free(self->device);
}

/* Operators whose results depend on positions or terms that need more than 24 bits: their kernels
 * compute them as `real` (dialect.h). */
static const char *const of_f64[] = {
    "grid_sample", "grid_sample_grad_grid", "grid_sample_grad_input", "poisson",
    "resize_axis", "resize_axis_grad", "roi_align", "roi_align_grad", "tan",
};

static bool needs_f64(const struct bp_kernel *row)
{
    for (size_t i = 0; i < sizeof of_f64 / sizeof *of_f64; i++)
        if (!strcmp(row->op, of_f64[i])) return true;
    return false;
}

/* Refuses a row that declines all calls on devices whose teams compute blocks, if all do. */
static enum bp_status usable_without_blocks(const struct xpu *self, const struct bp_kernel *row)
{
    for (uint32_t i = 0; i < self->n_device; i++)
        if (!self->device[i].has_blocks) return BP_OK;
    return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                   "%s: it is for processors; a GPU computes its parts faster", row->name);
}

/* Refuses a row if no device has f64. portable_accepts refuses a call if its device has none. */
enum bp_status portable_usable(void *p, const struct bp_kernel *row)
{
    const struct xpu *self = p;

    if (!strcmp(row->op, "fused_conv")) return usable_without_blocks(self, row);
    for (uint32_t i = 0; i < self->n_device; i++)
        if (self->device[i].has_f64) return BP_OK;
    if (!needs_f64(row)) return BP_OK;
    return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                   "%s: it computes with 64-bit floating-point numbers, which no device of xpu has",
                   row->name);
}

enum bp_status portable_accepts(void *p, const struct bp_prep *prep)
{
    const struct xpu *self = p;

    return self->device[prep->device].has_f64 || !needs_f64(prep->kernel) ? BP_OK
                                                                          : BP_ERR_UNSUPPORTED;
}

enum bp_status xpu_device_count(void *p, uint32_t *out_count)
{
    struct xpu *self = p;

    *out_count = self->n_device;
    return BP_OK;
}

/* Queries of extensions, whose numbers older headers lack: CL_DEVICE_UUID_KHR and
 * CL_DEVICE_PCI_BUS_INFO_KHR. */
enum { UUID = 0x106a, PCI_BUS = 0x410f };

/* Reports the properties that identify the hardware, as far as the driver knows them. */
static void fill_hardware(const struct xpu_device *d, struct bp_device_properties *out)
{
    const struct xpu_calls *call = d->self->call;
    cl_uint pci[4]; /* domain, bus, device, function */

    if (BP_HAS(out, uuid) && xpu_device_extends(d, "cl_khr_device_uuid"))
        call->clGetDeviceInfo(d->id, UUID, sizeof out->uuid, out->uuid, NULL);
    if (BP_HAS(out, pci) && xpu_device_extends(d, "cl_khr_pci_bus_info") &&
        !call->clGetDeviceInfo(d->id, PCI_BUS, sizeof pci, pci, NULL))
        snprintf(out->pci, sizeof out->pci, "%04x:%02x:%02x.%x", pci[0], pci[1], pci[2], pci[3]);
}

enum bp_status xpu_device_properties(void *p, uint32_t device, struct bp_device_properties *out)
{
    struct xpu *self = p;
    const struct xpu_device *d = &self->device[device];
    cl_device_id id = d->id;
    uint64_t lacks = d->has_f64 ? 0 : BP_M(F64) | BP_M(C128);
    char name[NAME] = "", version[NAME] = "", driver[NAME] = "";
    cl_uint units = 0, align_bits = 0;

    self->call->clGetDeviceInfo(id, CL_DEVICE_NAME, NAME, name, NULL);
    self->call->clGetDeviceInfo(id, CL_DEVICE_VERSION, NAME, version, NULL);
    self->call->clGetDeviceInfo(id, CL_DRIVER_VERSION, NAME, driver, NULL);
    self->call->clGetDeviceInfo(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    self->call->clGetDeviceInfo(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align_bits, &align_bits,
                                NULL);
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, name);
    snprintf(out->driver, sizeof out->driver, "%.30s, %.30s", version, driver);
    BP_SET(out, memory, device_info_of(self, id, CL_DEVICE_GLOBAL_MEM_SIZE));
    BP_SET(out, max_alloc, device_info_of(self, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
    BP_SET(out, dtypes, (BP_MASK_ANY | BP_MASK_F8) & ~lacks);
    BP_SET(out, alignment, align_bits / 8 > 64 ? align_bits / 8 : 64);
    BP_SET(out, units, units);
    BP_SET(out, flags, BP_DEVICE_HANDLES);
    if (d->is_processor) BP_SET(out, images, BP_IMAGES_ROW_MAJOR); /* 1.2 times as fast */
    fill_hardware(d, out);
    return BP_OK;
}
