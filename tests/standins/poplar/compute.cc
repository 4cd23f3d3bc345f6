/* SPDX-License-Identifier: Apache-2.0 */
/* compute.cc: computes the operators of programs by the portable kernels. */
#include "internal.hpp"

#include <cstring>

namespace poplar {
namespace {

struct Call {
    base_call call;
    explicit Call(const Step &step, const std::vector<base_tensor> &in, const base_tensor &out)
    {
        std::memset(&call, 0, sizeof call);
        call.op = step.name.c_str();
        call.n_in = (int)in.size();
        call.n_out = 1;
        for (std::size_t i = 0; i < in.size(); i++) call.in[i] = &in[i];
        call.out[0] = &out;
        for (std::uint32_t &type : call.type) type = BASE_ABSENT;
        call.type[0] = in[0].dtype;
        if (out.dtype != in[0].dtype) call.type[1] = out.dtype;
        if (out.dtype == BP_BOOL) call.type[1] = BP_BOOL;
    }
    void run(const void *attrs)
    {
        int code;
        call.attrs = attrs;
        code = base_compute(&call);
        if (code == BASE_FAULT)
            throw application_runtime_error(std::string(call.op) + ": an index beyond the axis");
        if (code)
            throw poplar_error(std::string(call.op) + ": the portable kernels answer " +
                               std::to_string(code));
    }
};

void run_reduce(const Step &step, const std::vector<base_tensor> &in, const base_tensor &out)
{
    bp_sum_attrs attrs = {};
    Call call(step, in, out);

    attrs.size = sizeof attrs;
    attrs.axes.n = (std::int64_t)step.number.size();
    attrs.axes.at = step.number.data();
    call.run(&attrs);
}

/* Puts zeros between the elements of the field of x, as its dilation says. */
std::vector<char> dilate(const Step &step, const base_tensor &x, base_tensor &wide)
{
    std::int64_t shape[BASE_RANK], stride[BASE_RANK];
    std::size_t bytes = base_dtype_size(x.dtype), n = bytes;
    std::vector<char> memory;
    base_tensor holes;

    for (int k = 0; k < x.rank; k++) {
        std::int64_t d = k < 2 ? 1 : step.number[2 + (std::size_t)(k - 2) * 6];
        shape[k] = (x.shape[k] - 1) * d + 1;
        n *= (std::size_t)shape[k];
    }
    memory.assign(n, 0);
    wide = base_tensor_of(memory.data(), x.dtype, x.rank, shape);
    holes = wide;
    for (int k = 0; k < x.rank; k++) {
        std::int64_t d = k < 2 ? 1 : step.number[2 + (std::size_t)(k - 2) * 6];
        stride[k] = wide.stride[k] * d;
        holes.shape[k] = x.shape[k];
        holes.stride[k] = stride[k];
    }
    base_tensor_copy(&x, &holes);
    return memory;
}

/* The filter, mirrored along the axes whose number says so. */
std::vector<char> mirror(const Step &step, const base_tensor &w, base_tensor &turned)
{
    std::size_t bytes = base_dtype_size(w.dtype);
    std::vector<char> memory((std::size_t)base_tensor_count(&w) * bytes);
    std::vector<std::int64_t> at((std::size_t)w.rank, 0);

    for (std::int64_t i = 0, n = base_tensor_count(&w); i < n; i++) {
        std::int64_t from = 0;
        for (int k = 0; k < w.rank; k++) {
            bool flip = k >= 3 && step.number[2 + (std::size_t)(k - 3) * 6 + 4];
            from += (flip ? w.shape[k] - 1 - at[(std::size_t)k] : at[(std::size_t)k]) * w.stride[k];
        }
        std::memcpy(memory.data() + (std::size_t)i * bytes,
                    (char *)w.data + (std::size_t)from * bytes, bytes);
        for (int k = w.rank; k-- > 0;) {
            if (++at[(std::size_t)k] < w.shape[k]) break;
            at[(std::size_t)k] = 0;
        }
    }
    turned = base_tensor_of(memory.data(), w.dtype, w.rank, w.shape);
    return memory;
}

/* A copy of a tensor as another dtype. */
std::vector<char> converted(base_tensor &t, std::uint32_t dtype)
{
    std::vector<char> memory((std::size_t)base_tensor_count(&t) * base_dtype_size(dtype));
    base_tensor to = base_tensor_of(memory.data(), dtype, t.rank, t.shape);
    bp_cast_attrs attrs = {};
    base_call call = {};

    attrs.size = sizeof attrs;
    attrs.to = dtype;
    call.op = "cast";
    call.attrs = &attrs;
    call.n_in = call.n_out = 1;
    call.in[0] = &t;
    call.out[0] = &to;
    for (std::uint32_t &type : call.type) type = BASE_ABSENT;
    call.type[0] = t.dtype;
    call.type[1] = dtype;
    if (base_compute(&call)) throw poplar_error("cast: the portable kernels lack it");
    t = to;
    return memory;
}

/* The kernel wants the groups and the outputs of weights as one axis. */
void run_conv(const Step &step, const std::vector<base_tensor> &in, const base_tensor &out)
{
    bp_conv_attrs attrs = {};
    std::vector<base_tensor> operand = in;
    std::vector<char> wide, turned, as_out[2];
    std::int64_t axes = step.number[0];
    std::int64_t shape[BASE_RANK];

    attrs.size = sizeof attrs;
    attrs.groups = step.number[1];
    for (int k = 0; k < 3; k++) attrs.stride[k] = attrs.dilation[k] = 1;
    for (std::int64_t k = 0; k < axes; k++) {
        const std::int64_t *number = &step.number[2 + (std::size_t)k * 6];
        if (number[0] != 1 && wide.empty()) wide = dilate(step, in[0], operand[0]);
        if (number[4] && turned.empty()) turned = mirror(step, in[1], operand[1]);
        attrs.pad[k] = number[1];
        attrs.pad[k + 3] = number[2];
        attrs.dilation[k] = number[3];
        attrs.stride[k] = number[5];
    }
    shape[0] = operand[1].shape[0] * operand[1].shape[1];
    for (int k = 2; k < operand[1].rank; k++) shape[k - 1] = operand[1].shape[k];
    operand[1] = base_tensor_of(operand[1].data, operand[1].dtype, operand[1].rank - 1, shape);
    for (int i = 0; i < 2; i++)
        if (out.dtype != operand[(std::size_t)i].dtype)
            as_out[i] = converted(operand[(std::size_t)i], out.dtype);
    Call(step, operand, out).run(&attrs);
}

void run_pool(const Step &step, const std::vector<base_tensor> &in, const base_tensor &out)
{
    bp_avg_pool_attrs attrs = {}; /* begins as the attributes of max_pool */

    attrs.size = step.name == "max_pool" ? sizeof(bp_max_pool_attrs) : sizeof attrs;
    for (int k = 0; k < 3; k++) attrs.window[k] = attrs.stride[k] = attrs.dilation[k] = 1;
    for (std::int64_t k = 0; k < step.number[0]; k++) {
        const std::int64_t *number = &step.number[1 + (std::size_t)k * 4];
        attrs.window[k] = number[0];
        attrs.stride[k] = number[1];
        attrs.pad[k] = number[2];
        attrs.pad[k + 3] = number[3];
    }
    Call(step, in, out).run(&attrs);
}

/* A cast to the same kernel dtype only copies. */
void run_cast(const Step &step, const std::vector<base_tensor> &in, const base_tensor &out)
{
    bp_cast_attrs attrs = {};
    Call call(step, in, out);

    if (in[0].dtype == out.dtype) {
        base_tensor_copy(&in[0], &out);
        return;
    }
    attrs.size = sizeof attrs;
    attrs.to = out.dtype;
    call.call.type[1] = out.dtype;
    call.run(&attrs);
}

} // namespace

void standin_compute(const Step &step, const std::vector<base_tensor> &in, const base_tensor &out)
{
    static const std::set<std::string> reductions = {"sum", "prod", "min", "max", "all", "any"};

    if (reductions.count(step.name)) {
        run_reduce(step, in, out);
    } else if (step.name == "conv") {
        run_conv(step, in, out);
    } else if (step.name == "max_pool" || step.name == "avg_pool") {
        run_pool(step, in, out);
    } else if (step.name == "cast") {
        run_cast(step, in, out);
    } else if (step.name == "where") {
        Call call(step, in, out);
        call.call.type[0] = in[1].dtype;
        call.call.type[1] = BP_BOOL;
        call.run(nullptr);
    } else if (step.name == "gather") {
        bp_gather_attrs attrs = {};
        Call call(step, in, out);
        attrs.size = sizeof attrs;
        attrs.axis = step.number[0];
        call.call.type[2] = BP_I32;
        call.run(&attrs);
    } else if (step.name == "matmul") {
        bp_matmul_attrs attrs = {};
        attrs.size = sizeof attrs;
        Call(step, in, out).run(&attrs);
    } else if (step.name == "softmax") {
        bp_softmax_attrs attrs = {};
        attrs.size = sizeof attrs;
        attrs.axis = -1;
        Call(step, in, out).run(&attrs);
    } else if (step.name == "gelu") {
        bp_gelu_attrs attrs = {};
        attrs.size = sizeof attrs;
        attrs.approximate = 1;
        Call(step, in, out).run(&attrs);
    } else {
        Call(step, in, out).run(nullptr);
    }
}

} // namespace poplar
