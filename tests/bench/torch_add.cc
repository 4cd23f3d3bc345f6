// SPDX-License-Identifier: Apache-2.0
// torch_add.cc: measures nanoseconds of at::add with one f32 element, with creation and destruction
// of the output: the counterpart of launch/eager of `bp bench`. torch_add.py builds and runs it.
//
// Prints two figures: for a plain call, and in inference mode, where PyTorch omits work that only
// gradients need.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

static double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The median of many short runs, as in `bp bench`.
static double measure()
{
    at::Tensor x = at::ones({1}), y = at::ones({1});
    const int calls = 300, runs = 1000;
    std::vector<double> seconds;

    for (int i = 0; i < runs; i++) {
        double begin = now();
        for (int k = 0; k < calls; k++) at::Tensor z = at::add(x, y);
        seconds.push_back((now() - begin) / calls);
    }
    std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
    return seconds[runs / 2] * 1e9;
}

int main()
{
    at::set_num_threads(1);
    measure(); // warms up
    double plain = measure();
    c10::InferenceMode inference;
    std::printf("%.1f %.1f\n", plain, measure());
}
