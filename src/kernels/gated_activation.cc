#include "kernels/gated_activation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::kernels {
namespace {

double Sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double Gate(ActivationKind kind, double gate, double up) {
  switch (kind) {
    case ActivationKind::kSilu:
      return gate * Sigmoid(gate) * up;
    case ActivationKind::kGeluTanh: {
      const double inner = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
      return 0.5 * gate * (1 + std::tanh(inner)) * up;
    }
    case ActivationKind::kGelu:
      return 0.5 * gate * (1 + std::erf(gate / std::numbers::sqrt2)) * up;
    case ActivationKind::kSwigluOai: {
      const double limited_gate = std::min(gate, 7.0);
      const double limited_up = std::clamp(up, -7.0, 7.0);
      return limited_gate * Sigmoid(1.702 * limited_gate) * (limited_up + 1);
    }
    case ActivationKind::kRelu:
      return std::max(gate, 0.0) * up;
  }
  CHECK(false, "unknown activation");
  return 0;
}

}  // namespace

void GatedActivationReference(const GatedActivationArgs& args, Workspace&) {
  CHECK(args.gate.rows == args.out.rows && args.up.rows == args.out.rows &&
        args.gate.columns == args.out.columns && args.up.columns == args.out.columns);
  for (size_t row = 0; row < args.out.rows; ++row) {
    for (size_t i = 0; i < args.out.columns; ++i) {
      const float result =
          static_cast<float>(Gate(args.kind, args.gate.Row(row)[i], args.up.Row(row)[i]));
      args.out.Row(row)[i] = result;
    }
  }
}

}  // namespace weft::kernels
