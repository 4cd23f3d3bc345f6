/* SPDX-License-Identifier: Apache-2.0 */
/* invoke.c: calls functions whose parameters are known at run time only; see invoke.h. */
#include "invoke.h"

#include <string.h>

void kit_invoke_word(struct kit_invocation *call, int64_t value)
{
    if (call->n_word == KIT_INVOKE_WORDS) call->too_many = true;
    else call->word[call->n_word++] = (uint64_t)value;
}

void kit_invoke_pointer(struct kit_invocation *call, const void *value)
{
    kit_invoke_word(call, (int64_t)(intptr_t)value);
}

void kit_invoke_double(struct kit_invocation *call, double value)
{
    if (call->n_real == KIT_INVOKE_FLOATS) call->too_many = true;
    else call->real[call->n_real++] = value;
}

/* A float is in the lower half of the register. */
void kit_invoke_float(struct kit_invocation *call, float value)
{
    double bits = 0;

    memcpy(&bits, &value, sizeof value);
    kit_invoke_double(call, bits);
}

bool kit_invoke_works(void)
{
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && __SIZEOF_POINTER__ == 8
    return true;
#else
    return false;
#endif
}

int kit_invoke(void *function, const struct kit_invocation *call)
{
    const uint64_t *w = call->word;
    const double *r = call->real;
    int (*invoked)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                   uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                   double, double, double, double, double, double, double, double);

    memcpy(&invoked, &function, sizeof invoked);
    return invoked(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12],
                   w[13], w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23],
                   r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]);
}
