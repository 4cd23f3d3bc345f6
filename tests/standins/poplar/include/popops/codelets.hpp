/* SPDX-License-Identifier: Apache-2.0 */
/* codelets.hpp: adds the code of popops to a graph, before its functions may be used. */
#ifndef POPOPS_CODELETS_HPP
#define POPOPS_CODELETS_HPP

#include <poplar/Graph.hpp>

namespace popops {
POPLAR_API void addCodelets(poplar::Graph &graph);
}

#endif
