/* SPDX-License-Identifier: Apache-2.0 */
/* codelets.hpp: adds the code of popnn to a graph, before its functions may be used. */
#ifndef POPNN_CODELETS_HPP
#define POPNN_CODELETS_HPP

#include <poplar/Graph.hpp>

namespace popnn {
POPLAR_API void addCodelets(poplar::Graph &graph);
}

#endif
