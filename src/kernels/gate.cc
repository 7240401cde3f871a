#include "kernels/gate.h"

#include <cmath>

namespace weft::kernels {

void GateReference(const GateArgs& args, Workspace&) {
  CHECK(args.in.rows == args.out.rows && args.gate.rows == args.out.rows &&
        args.in.columns == args.out.columns &&
        (args.gate.columns == args.out.columns || args.gate.columns == 1));
  for (size_t row = 0; row < args.out.rows; ++row) {
    for (size_t i = 0; i < args.out.columns; ++i) {
      const double gate = args.gate.Row(row)[args.gate.columns == 1 ? 0 : i];
      const double sigmoid = 1 / (1 + std::exp(-gate));
      const double factor = args.kind == GateKind::kIdentity  ? gate
                            : args.kind == GateKind::kSigmoid ? sigmoid
                                                              : gate * sigmoid;
      args.out.Row(row)[i] = static_cast<float>(args.in.Row(row)[i] * factor);
    }
  }
}

}  // namespace weft::kernels
