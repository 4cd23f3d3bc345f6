/* SPDX-License-Identifier: Apache-2.0 */
/* codelets.hpp: adds the code of poplin to a graph, before its functions may be used. */
#ifndef POPLIN_CODELETS_HPP
#define POPLIN_CODELETS_HPP

#include <poplar/Graph.hpp>

namespace poplin {
POPLAR_API void addCodelets(poplar::Graph &graph);
}

#endif
