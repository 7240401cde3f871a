// Which experts a row goes to, and with which weights.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

// The values are program::RouteKind's.
enum class RouteKind : uint32_t {
  kSoftmaxTopK = 0,            // softmax over all experts, then the top k weights as they are
  kSoftmaxTopKNormalized = 1,  // the same, divided by their sum
};

struct MoeRouteArgs {
  ConstRows logits;  // [rows, experts]
  size_t top_k = 0;  // <= experts
  RouteKind kind = RouteKind::kSoftmaxTopK;
  Rows out;  // [rows, 2 * top_k]: expert indices by falling logit (equal: lower index first), then
             // Their weights.
};

void MoeRouteReference(const MoeRouteArgs& args, Workspace& workspace);

}  // namespace weft::kernels
