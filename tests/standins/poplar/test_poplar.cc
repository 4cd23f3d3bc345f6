/* SPDX-License-Identifier: Apache-2.0 */
/* test_poplar.cc: tests that the stand-in for Poplar refuses wrong calls: cases.def has one or more
 * for each function. Prints TAP. */
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poplin/Convolution.hpp>
#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>
#include <popnn/NonLinearity.hpp>
#include <popnn/Pooling.hpp>
#include <popnn/codelets.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Gather.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

using namespace poplar;
using Shape = std::vector<std::size_t>;
using U = popops::expr::UnaryOpType;
using B = popops::expr::BinaryOpType;
using T = popops::expr::TernaryOpType;

namespace {

/* A graph with tensors to call functions with. */
struct Bench {
    Device device = IPUModel("ipu2").createDevice();
    Graph g{device.getTarget()};
    program::Sequence p;
    Tensor f23 = add(FLOAT, {2, 3}), f32 = add(FLOAT, {3, 2}), f4 = add(FLOAT, {4}),
           h23 = add(HALF, {2, 3}), i23 = add(INT, {2, 3}), b23 = add(BOOL, {2, 3}),
           u2 = add(UNSIGNED_INT, {2}), i2 = add(INT, {2}), f0 = add(FLOAT, Shape()),
           f223 = add(FLOAT, {2, 2, 3}), f232 = add(FLOAT, {2, 3, 2}),
           h232 = add(HALF, {2, 3, 2}), image = add(FLOAT, {1, 2, 5, 5}),
           filter = add(FLOAT, {1, 4, 2, 3, 3});

    explicit Bench(bool codelets)
    {
        if (!codelets) return;
        popops::addCodelets(g);
        poplin::addCodelets(g);
        popnn::addCodelets(g);
    }
    Tensor add(const Type &type, const Shape &shape)
    {
        Tensor t = g.addVariable(type, shape, "bench");
        poputil::mapTensorLinearly(g, t);
        return t;
    }
    Tensor unmapped(const Shape &shape)
    {
        return g.addVariable(FLOAT, shape, "unmapped");
    }
    poplin::ConvParams conv(const Type &type = FLOAT, std::size_t channels = 2)
    {
        return poplin::ConvParams(type, type, 1, {5, 5}, {3, 3}, channels, 4, 1);
    }
    popnn::pooling::PoolParams pool(const Type &type, std::size_t window)
    {
        return popnn::pooling::PoolParams(popnn::PoolingType::MAX, {5, 5}, {window, window}, {1, 1},
                                          {0, 0}, {0, 0}, 2, 1, type);
    }
    Executable compile()
    {
        std::vector<program::Program> all = {p};
        return compileGraph(g, all);
    }
    void load()
    {
        Engine e(compile());
        e.load(device);
        e.run(7);
    }
};

int number, failures;

/* The call must throw an exception whose text has these words; empty: it must not throw. */
void check(const char *name, bool codelets, const std::function<void(Bench &b)> &call,
           const char *words)
{
    std::string text;
    bool good;

    try {
        Bench b(codelets);
        call(b);
        good = !*words;
    } catch (const std::exception &e) {
        text = e.what();
        good = *words && text.find(words) != std::string::npos;
    }
    std::printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    if (!good) std::printf("# expected '%s', got '%s'\n", words, text.c_str());
    failures += !good;
}

} // namespace

int main()
{
#define WRONG(name, call, words) check(name, true, [](Bench &b) { (void)(call); }, words);
#define RIGHT(name, call) check(name, true, [](Bench &b) { (void)(call); }, "");
#define BARE(name, call, words) check(name, false, [](Bench &b) { (void)(call); }, words);
#include "cases.def"
    std::printf("1..%d\n", number);
    return failures > 0;
}
