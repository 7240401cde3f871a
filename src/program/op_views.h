// Goes through the buffer views and the weights of an operation without knowing which one it is.
// What each operation has is said in ops.json.
#pragma once

#include "program/ir.h"
#include "program/op_visits.gen.h"

namespace weft::program {

// Calls visit(view, is_output) for every view: inputs first, then outputs. `Operation` is Op or
// const Op.
template <typename Operation, typename Visit>
void VisitViews(Operation& operation, const Visit& visit) {
  std::visit([&](auto& op) { VisitViewsOf(op, visit); }, operation);
}

// Calls visit(id) for every weight that the operation uses.
template <typename Operation, typename Visit>
void VisitWeights(Operation& operation, const Visit& visit) {
  std::visit([&](auto& op) { VisitWeightsOf(op, visit); }, operation);
}

// Operations that may write exactly the view that they read (ir.h).
inline bool MayWriteInPlace(const Op& operation) {
  return std::visit([](const auto& op) { return MayWriteInPlaceOf(op); }, operation);
}

}  // namespace weft::program
