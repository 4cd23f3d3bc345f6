/* SPDX-License-Identifier: Apache-2.0 */
/* opencl_launch.c: measures the cost of a launch on an OpenCL device in relation to the OpenCL
 * calls that it consists of. Two sides alternate on one device: 1,000 runs of a prepared call
 * (scale, on few elements) and the wait for their end; and the same kernel, from the same source,
 * with clSetKernelArg for each argument and clEnqueueNDRangeKernel, 1,000 times, then clFinish.
 * Prints nanoseconds per launch, and the median of the ratios with their quartiles. Run by hand;
 * BP_XPU_DEVICES selects the device.
 *
 *     opencl_launch [PAIRS] */
#include "sources.h"
#include "xpu.h"
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 1000, N = 64, PAIRS = 101 };

static void opencl_launch_need(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "opencl_launch: %s: %s\n", what, bp_error_message());
    exit(1);
}

static double opencl_launch_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* The kernel and arguments that a launch function hands to the plugin: this portable_run stores
 * them for the other side. */
static struct portable caught;
static unsigned char caught_args[1024];

enum bp_status portable_run(const struct bp_launch *launch, const struct portable *p)
{
    (void)launch;
    opencl_launch_need(p->args_size <= sizeof caught_args, "arguments are larger than thought");
    caught = *p;
    memcpy(caught_args, p->args, p->args_size);
    return BP_OK;
}

int portable_has_blocks(void *self, uint32_t device)
{
    (void)self;
    (void)device;
    return 0;
}

static void catch_scale(void)
{
    const int64_t shape[1] = {N}, stride[1] = {1};
    struct bp_view view = {
        .shape = shape, .stride = stride, .count = N, .rank = 1, .dtype = BP_F32};
    const struct bp_view *in[1] = {&view}, *out[1] = {&view};
    struct bp_scale_attrs attrs = bp_scale_defaults();
    struct bp_launch launch = {.in = in, .out = out, .n_in = 1, .n_out = 1, .attrs = &attrs};

    attrs.factor = 2;
    opencl_launch_need(portable_scale(&launch) == BP_OK, "the arguments of scale");
}

/* The side that calls OpenCL directly. */
struct direct {
    struct xpu_calls call;
    cl_command_queue queue;
    cl_kernel kernel;
    cl_mem x, y;
};

static void open_calls(struct direct *d)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);

    opencl_launch_need(library != NULL, "libOpenCL.so.1");
#define CALL(name) \
    opencl_launch_need((*(void **)&d->call.name = dlsym(library, #name)) != NULL, #name);
#include "calls.def"
}

/* Finds the device with this name. */
static cl_device_id opencl_launch_find(struct direct *d, const char *name)
{
    cl_platform_id platform[16];
    cl_uint n = 0;

    opencl_launch_need(!d->call.clGetPlatformIDs(16, platform, &n), "clGetPlatformIDs");
    for (cl_uint p = 0; p < n && p < 16; p++) {
        cl_device_id id[16];
        cl_uint found = 0;
        if (d->call.clGetDeviceIDs(platform[p], CL_DEVICE_TYPE_ALL, 16, id, &found)) continue;
        for (cl_uint i = 0; i < found && i < 16; i++) {
            char text[128] = "";
            d->call.clGetDeviceInfo(id[i], CL_DEVICE_NAME, sizeof text - 1, text, NULL);
            if (!strncmp(text, name, strlen(name))) return id[i];
        }
    }
    opencl_launch_need(false, name);
    return NULL;
}

static void direct_init(struct direct *d, const char *name)
{
    const struct portable_source *source = &xpu_source[FAMILY_scale];
    cl_device_id id;
    cl_context context;
    cl_program program;
    cl_int code = 0;

    open_calls(d);
    id = opencl_launch_find(d, name);
    context = d->call.clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    opencl_launch_need(!code, "clCreateContext");
    d->queue = d->call.clCreateCommandQueue(context, id, 0, &code);
    opencl_launch_need(!code, "clCreateCommandQueue");
    d->x = d->call.clCreateBuffer(context, CL_MEM_READ_WRITE, N * sizeof(float), NULL, &code);
    d->y = d->call.clCreateBuffer(context, CL_MEM_READ_WRITE, N * sizeof(float), NULL, &code);
    opencl_launch_need(!code, "clCreateBuffer");
    program = d->call.clCreateProgramWithSource(context, source->n, (const char **)source->line,
                                                NULL, &code);
    opencl_launch_need(!code, "clCreateProgramWithSource");
    opencl_launch_need(!d->call.clBuildProgram(program, 1, &id,
                                               "-cl-std=CL1.2 -DON_PROCESSOR -DELEM=f32 -DELEM_f32",
                                               NULL, NULL),
                       "clBuildProgram");
    d->kernel = d->call.clCreateKernel(program, "bp_scale_f32", &code);
    opencl_launch_need(!code, "clCreateKernel");
}

/* Launches the kernel as the plugin does on a processor: one group of one lane computes all
 * elements. */
static void direct_launch(struct direct *d)
{
    const struct xpu_calls *call = &d->call;
    const cl_ulong at = 0;
    const int64_t count = N, run = 16385;
    size_t one = 1;
    cl_int code = call->clSetKernelArg(d->kernel, 0, caught.args_size, caught_args);

    code |= call->clSetKernelArg(d->kernel, 1, sizeof count, &count);
    code |= call->clSetKernelArg(d->kernel, 2, sizeof run, &run);
    code |= call->clSetKernelArg(d->kernel, 3, sizeof d->y, &d->y);
    code |= call->clSetKernelArg(d->kernel, 4, sizeof at, &at);
    code |= call->clSetKernelArg(d->kernel, 5, sizeof d->x, &d->x);
    code |= call->clSetKernelArg(d->kernel, 6, sizeof at, &at);
    code |= call->clEnqueueNDRangeKernel(d->queue, d->kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    opencl_launch_need(!code, "clSetKernelArg, clEnqueueNDRangeKernel");
}

static double direct_batch(struct direct *d, double *out_given)
{
    double began = opencl_launch_now_ns();

    for (int i = 0; i < BATCH; i++) direct_launch(d);
    *out_given = (opencl_launch_now_ns() - began) / BATCH;
    opencl_launch_need(!d->call.clFinish(d->queue), "clFinish");
    return (opencl_launch_now_ns() - began) / BATCH;
}

/* The side that calls Backplane. */
struct ours {
    struct bp_stream *stream;
    struct bp_prepared *prepared;
    struct bp_tensor *x, *y;
    struct bp_scale_attrs attrs;
};

static void ours_init(struct ours *o, struct bp_device *device)
{
    static const float ones[N] = {1};
    const int64_t n = N;
    struct bp_arg in[1] = {{&o->x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "scale", .in = in, .n_in = 1};

    o->attrs = bp_scale_defaults();
    o->attrs.factor = 2;
    call.attrs = &o->attrs;
    opencl_launch_need(!bp_stream_create(device, &o->stream), "a stream");
    opencl_launch_need(!bp_tensor_create(device, BP_F32, 1, &n, &o->x), "a tensor");
    opencl_launch_need(!bp_tensor_create(device, BP_F32, 1, &n, &o->y), "a tensor");
    opencl_launch_need(!bp_tensor_write(o->stream, o->x, ones, sizeof ones), "a write");
    opencl_launch_need(!bp_prepared_create(device, &call, NULL, 0, &o->prepared),
                       "a prepared call");
}

static double ours_batch(struct ours *o, double *out_given)
{
    double began = opencl_launch_now_ns();

    for (int i = 0; i < BATCH; i++)
        opencl_launch_need(!bp_prepared_run(o->prepared, o->stream, &o->x, 1, &o->y, 1, &o->attrs),
                           "a run");
    *out_given = (opencl_launch_now_ns() - began) / BATCH;
    opencl_launch_need(!bp_stream_synchronize(o->stream), "the end");
    return (opencl_launch_now_ns() - began) / BATCH;
}

static int opencl_launch_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void opencl_launch_show(const char *what, double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, opencl_launch_by_size);
    printf("%-34s %8.3f (%.3f to %.3f)\n", what, v[n / 2], v[n / 4], v[3 * n / 4]);
}

int main(int argc, char **argv)
{
    static double us[PAIRS], direct[PAIRS], ratio[PAIRS], given[PAIRS], us_given, direct_given;
    int pairs = argc > 1 ? atoi(argv[1]) : PAIRS;
    struct bp_device_properties p = {.size = sizeof p};
    struct bp_core *core;
    struct bp_device *device;
    struct direct d = {0};
    struct ours o = {0};

    if (pairs < 1 || pairs > PAIRS) pairs = PAIRS;
    opencl_launch_need(!bp_core_create(NULL, &core), "a core");
    opencl_launch_need(!bp_device_create(core, "xpu:0", &device), "xpu:0");
    opencl_launch_need(!bp_device_get_properties(device, &p), "its properties");
    catch_scale();
    direct_init(&d, p.name);
    ours_init(&o, device);
    ours_batch(&o, &us_given);
    direct_batch(&d, &direct_given);
    for (int i = 0; i < pairs; i++) {
        if (i & 1) us[i] = ours_batch(&o, &us_given);
        direct[i] = direct_batch(&d, &direct_given);
        if (!(i & 1)) us[i] = ours_batch(&o, &us_given);
        ratio[i] = us[i] / direct[i];
        given[i] = us_given / direct_given;
    }
    printf("%s: %d pairs of %d launches; median (quartiles)\n", p.name, pairs, BATCH);
    opencl_launch_show("prepared call, ns", us, pairs);
    opencl_launch_show("set arguments and enqueue, ns", direct, pairs);
    opencl_launch_show("ratio", ratio, pairs);
    opencl_launch_show("ratio, until all is given", given, pairs);
    return 0;
}
