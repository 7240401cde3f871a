// Goes through the buffer views of an operation without knowing which one it is.
#pragma once

#include <type_traits>

#include "program/ir.h"

namespace weft::program {

// Calls visit(view, is_output) for every view: inputs first, then outputs. `Operation` is Op or
// const Op.
template <typename Operation, typename Visit>
void VisitViews(Operation& operation, const Visit& visit) {
  std::visit(
      [&](auto& op) {
        using T = std::remove_cvref_t<decltype(op)>;
        if constexpr (requires { op.logits; }) visit(op.logits, false);
        if constexpr (requires { op.a; }) {
          visit(op.a, false);
          visit(op.b, false);
        }
        if constexpr (requires { op.q; }) {
          visit(op.q, false);
          visit(op.k, false);
          visit(op.v, false);
        }
        if constexpr (std::is_same_v<T, GatedActivation>) {
          visit(op.gate, false);
          visit(op.up, false);
        }
        if constexpr (std::is_same_v<T, MoeExperts>) visit(op.route, false);
        if constexpr (std::is_same_v<T, Exchange>) {  // gives `out` away, receives `in`
          visit(op.out, false);
          visit(op.in, true);
        } else {
          if constexpr (requires { op.in; }) visit(op.in, false);
          visit(op.out, true);
        }
      },
      operation);
}

// Operations that may write exactly the view that they read (ir.h).
inline bool MayWriteInPlace(const Op& operation) {
  return std::visit(
      [](const auto& op) {
        using T = std::remove_cvref_t<decltype(op)>;
        return std::is_same_v<T, Add> || std::is_same_v<T, Scale> || std::is_same_v<T, Softcap> ||
               std::is_same_v<T, RmsNorm> || std::is_same_v<T, LayerNorm> ||
               std::is_same_v<T, QkNormRope> || std::is_same_v<T, GatedActivation>;
      },
      operation);
}

}  // namespace weft::program
