#include "kernels/ssm_scan.h"

#include <cmath>

namespace weft::kernels {
namespace {

// One row of one head. `state` [state_columns, head_columns] f32 goes from S to the next S.
void Row(const SsmScanArgs& args, size_t row, size_t head, float* state) {
  const size_t columns = args.head_columns(), states = args.state_columns();
  const double step = args.TimeStep(row, head);
  const double kept = std::exp(args.decay[head] * step);
  const auto b = args.b.Row(row).subspan(args.Group(head) * states, states);
  const auto c = args.c.Row(row).subspan(args.Group(head) * states, states);
  for (size_t i = 0; i < columns; ++i) {
    const double x = args.x.Row(row)[head * columns + i];
    double out = args.skip[head] * x;
    for (size_t n = 0; n < states; ++n) {
      const double next = kept * state[n * columns + i] + step * x * b[n];
      state[n * columns + i] = static_cast<float>(next);
      out += next * c[n];
    }
    args.out.Row(row)[head * columns + i] = static_cast<float>(out);
  }
}

}  // namespace

void SsmScanReference(const SsmScanArgs& args, Workspace&) {
  RunStateHeads(args.runs, args.heads, args.head_columns() * args.state_columns(),
                [&](size_t row, size_t head, float* state) { Row(args, row, head, state); });
}

}  // namespace weft::kernels
