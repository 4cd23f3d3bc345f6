/* SPDX-License-Identifier: Apache-2.0 */
/* activation.c: builds the plans of activations and of their gradients, whose numbers no public
 * source confirms (numbers.h). */
#include "rows.h"
#include <string.h>

/* The numbers of an activation. */
struct activation {
    float coefficient, gamma, scale;
    bool approximate;
};

/* Sets a descriptor. Only gelu needs the newer function. */
static int activation_set(void *desc, enum mlu_number number, const struct activation *a)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    int precise = mlu_number(NUM_CNNL_ACTIVATION_HIGH_PRECISION);

    if (number == NUM_CNNL_ACTIVATION_GELU)
        return cnnl->cnnlSetActivationDescriptor_v6(desc, mlu_number(number), precise,
                                                    MLU_CNNL_PROPAGATE_NAN, 1, -1, 1, 1, false,
                                                    a->approximate);
    return cnnl->cnnlSetActivationDescriptor_v5(desc, mlu_number(number), precise,
                                                MLU_CNNL_PROPAGATE_NAN, a->coefficient, -1,
                                                a->gamma, a->scale, false);
}

static enum mlu_fn activation_setter(enum mlu_number number)
{
    return number == NUM_CNNL_ACTIVATION_GELU ? FN_cnnlSetActivationDescriptor_v6
                                              : FN_cnnlSetActivationDescriptor_v5;
}

/* A step for y = f(x), or for dx = f'(x) dy if t has three tensors: x, dy and dx. */
static int activation_call(const struct mlu_run *r, const struct mlu_step *s, void *desc)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;

    if (s->n == 2)
        return cnnl->cnnlActivationForward(r->handle, desc, NULL, mlu_desc(s, 0),
                                           mlu_address(r, s, 0), NULL, mlu_desc(s, 1),
                                           mlu_address(r, s, 1));
    return cnnl->cnnlActivationBackward(r->handle, desc, NULL, NULL, NULL, mlu_desc(s, 1),
                                        mlu_address(r, s, 1), mlu_desc(s, 0), mlu_address(r, s, 0),
                                        NULL, mlu_desc(s, 2), mlu_address(r, s, 2));
}

static int activation_call_fixed(const struct mlu_run *r, const struct mlu_step *s)
{
    return activation_call(r, s, s->desc);
}

/* Attributes may change with each launch, and launches of a plan may overlap: each has a descriptor
 * of its own. i[0] is the row's number. All three structs have the coefficient first. */
static int activation_call_anew(const struct mlu_run *r, const struct mlu_step *s)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    enum mlu_number number = (enum mlu_number)s->i[0];
    const struct bp_elu_attrs *elu = r->launch->attrs;
    struct activation a = {(float)elu->alpha, 1, 1, false};
    void *desc = NULL;
    int code;

    if (number == NUM_CNNL_ACTIVATION_SELU) {
        const struct bp_selu_attrs *selu = r->launch->attrs;
        a = (struct activation){1, (float)selu->alpha, (float)selu->scale, false};
    }
    code = cnnl->cnnlCreateActivationDescriptor(&desc);
    if (code) return code;
    code = activation_set(desc, number, &a);
    if (!code) code = activation_call(r, s, desc);
    cnnl->cnnlDestroyActivationDescriptor(desc);
    return code;
}

static void activation_describe(struct mlu_build *b, struct mlu_step *s, enum mlu_number number,
                                const struct activation *a)
{
    if (!mlu_build_check(b, FN_cnnlCreateActivationDescriptor,
                         mlu_cnnl.call.cnnlCreateActivationDescriptor(&s->desc)))
        return;
    s->desc_destroy = FN_cnnlDestroyActivationDescriptor;
    mlu_build_check(b, activation_setter(number), activation_set(s->desc, number, a));
}

void mlu_describe_activation(struct mlu_build *b, struct mlu_step *step, enum mlu_number number)
{
    activation_describe(b, step, number, &(struct activation){1, 1, 1, false});
}

static void activation_build(struct mlu_build *b, bool approximate)
{
    const struct activation a = {1, 1, 1, approximate};
    bool backward = b->prep->n_in == 2, anew = b->prep->kernel->attrs_size != 0;
    enum mlu_number number = b->row->number;
    struct mlu_tensor t[3];
    struct mlu_step *s;

    if (number == NUM_CNNL_ACTIVATION_GELU) anew = false; /* its attribute is a part of the plan */
    for (uint32_t i = 0; i < b->prep->n_in; i++) t[i] = mlu_flat(mlu_in(b, i));
    t[b->prep->n_in] = mlu_flat(mlu_out(b, 0));
    s = mlu_step(b, backward ? FN_cnnlActivationBackward : FN_cnnlActivationForward,
                 anew ? activation_call_anew : activation_call_fixed, b->prep->n_in + 1, t);
    if (!s) return;
    s->i[0] = number;
    if (!anew) activation_describe(b, s, number, &a);
}

void mlu_build_activation(struct mlu_build *b)
{
    activation_build(b, false);
}

void mlu_build_gelu(struct mlu_build *b)
{
    activation_build(b, ((const struct bp_gelu_attrs *)b->prep->attrs)->approximate != 0);
}

void mlu_build_gelu_tanh_grad(struct mlu_build *b)
{
    activation_build(b, true);
}
