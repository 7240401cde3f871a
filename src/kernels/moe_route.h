// Which experts a row goes to, and with which weights.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

// The values are program::RouteKind's.
enum class RouteKind : uint32_t {
  kSoftmaxTopK = 0,            // softmax over all experts, then the top k weights as they are
  kSoftmaxTopKNormalized = 1,  // the same, divided by their sum
  kSigmoidTopK = 2,            // the sigmoids of the top k logits
  kSigmoidTopKNormalized = 3,  // the same, divided by their sum
  kAll = 4,                    // every expert in order with weight 1; top_k is all of them
};

// Groups that a row's experts may be in.
inline constexpr size_t kMostRouteGroups = 64;

struct MoeRouteArgs {
  ConstRows logits;  // [rows, experts]
  size_t top_k = 0;  // <= experts
  RouteKind kind = RouteKind::kSoftmaxTopK;
  Rows out;  // [rows, 2 * top_k * parts]: expert indices by falling choice (equal: lower index
             // first), then their weights.
  std::span<const float> bias = {};  // [experts], added to scores for the choice alone, or empty
  size_t groups = 1;                 // of experts / groups neighbours each
  size_t top_groups = 1;             // the choice of experts in other groups counts as 0
  size_t group_best = 1;             // a group is worth the sum of its so many greatest
  float scale = 1;                   // of the weights
  size_t parts = 1;                  // expert e is written as parts * e, parts * e + 1, ...
};

// Private floats of Workspace that MoeRouteReference needs: what experts are chosen by.
constexpr size_t MoeRouteFloats(size_t experts) {
  return experts;
}

void MoeRouteReference(const MoeRouteArgs& args, Workspace& workspace);

}  // namespace weft::kernels
