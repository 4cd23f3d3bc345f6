/* SPDX-License-Identifier: Apache-2.0 */
/* rtc_end.cc: stands behind a source that the stand-in for NVRTC or hiprtc compiles (rtc.c): makes
 * the kernel bp_fused an entry of the simulator (image.h). */
#undef uint32_t
#undef uint64_t
#undef int64_t

namespace {

enum { LANES_OF_TEAM = 256, TEAMS_MOST = 3 };

template <typename T> struct operand_of {
    enum { IS = 0, BYTES = sizeof(T) };
};
template <typename T> struct operand_of<T *> {
    enum { IS = 1, BYTES = 0 };
};

/* Takes the parameters of a launch one after another. */
struct parameters {
    const char *value;
    void *const *operand;

    template <typename T> T take(T *)
    {
        T x;
        memcpy(&x, value, sizeof x);
        value += sizeof x;
        return x;
    }
    template <typename T> T *take(T **)
    {
        return (T *)*operand++;
    }
};

/* Calls a kernel for all lanes. */
struct call {
    template <typename... P> call(long long count, void (*kernel)(P...), P... p)
    {
        unsigned teams = (unsigned)((count - 1) / LANES_OF_TEAM + 1);

        gridDim.x = teams < TEAMS_MOST ? teams : TEAMS_MOST;
        blockDim.x = LANES_OF_TEAM;
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) kernel(p...);
    }
};

/* Braces evaluate their expressions from left to right. */
template <typename... P>
void run(void (*kernel)(P...), const void *args, void *const *operand, long long count)
{
    parameters from = {(const char *)args, operand};

    call{count, kernel, from.take((P *)nullptr)...};
}

/* The kernel's parameters: values, the last of which is the count, and operands. */
template <typename... P> constexpr size_t bytes_of(void (*)(P...))
{
    return (size_t(0) + ... + operand_of<P>::BYTES) - sizeof(long long);
}
template <typename... P> constexpr size_t operands_of(void (*)(P...))
{
    return (size_t(0) + ... + operand_of<P>::IS);
}

} // namespace

extern "C" {
__attribute__((visibility("default"))) void sim_compiled_entry(const void *args,
                                                               void *const *operand, long long,
                                                               long long count)
{
    run(bp_fused, args, operand, count);
}
__attribute__((visibility("default"))) extern const size_t sim_compiled_sizes[2];
const size_t sim_compiled_sizes[2] = {bytes_of(bp_fused), operands_of(bp_fused)};
}
