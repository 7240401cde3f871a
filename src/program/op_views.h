// Goes through the buffer views and the weights of an operation without knowing which one it is.
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
        if constexpr (requires { op.q; }) visit(op.q, false);
        if constexpr (std::is_same_v<T, Attention>) {
          if (!op.kv_layer) {
            visit(op.k, false);
            visit(op.v, false);
          }
        }
        if constexpr (std::is_same_v<T, DeltaRule>) {
          visit(op.k, false);
          visit(op.v, false);
        }
        if constexpr (std::is_same_v<T, GatedActivation>) {
          visit(op.gate, false);
          visit(op.up, false);
        }
        if constexpr (requires { op.route; }) visit(op.route, false);
        if constexpr (std::is_same_v<T, Gate>) visit(op.gate, false);
        if constexpr (std::is_same_v<T, SsmScan>) {
          visit(op.x, false);
          visit(op.b_in, false);
          visit(op.c_in, false);
          visit(op.dt, false);
        }
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

// Calls visit(id) for every weight that the operation uses.
template <typename Operation, typename Visit>
void VisitWeights(Operation& operation, const Visit& visit) {
  const auto if_set = [&](auto& id) {
    if (id) visit(*id);
  };
  std::visit(
      [&](auto& op) {
        if constexpr (requires { op.weight.weight; }) {
          visit(op.weight.weight);
        } else if constexpr (requires { op.weight; }) {
          visit(op.weight);
        }
        if constexpr (requires { op.bias; }) if_set(op.bias);
        if constexpr (requires { op.norm_weight; }) if_set(op.norm_weight);
        if constexpr (requires { op.rope; }) {
          if (op.rope) visit(op.rope->inv_freq);
        }
        if constexpr (requires { op.sinks; }) if_set(op.sinks);
        if constexpr (requires { op.decay; }) {
          visit(op.decay);
          visit(op.dt_bias);
        }
        if constexpr (requires { op.skip; }) visit(op.skip);
        if constexpr (requires { op.gate_up; }) {
          visit(op.gate_up);
          visit(op.down);
          if_set(op.gate_up_bias);
          if_set(op.down_bias);
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
               std::is_same_v<T, QkNormRope> || std::is_same_v<T, GatedActivation> ||
               std::is_same_v<T, Gate>;
      },
      operation);
}

}  // namespace weft::program
