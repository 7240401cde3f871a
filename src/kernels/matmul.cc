#include "kernels/matmul.h"

#include <vector>

#include "kernels/superblock_row.h"

namespace weft::kernels {
namespace {

void SuperblockReference(const MatMulArgs& args) {
  SuperblockRow weights(args.weight);
  std::vector<IntegerInput> in(args.in.rows * weights.count());
  for (size_t r = 0; r < args.in.rows; ++r)
    PrepareIntegers(args.in.Row(r), &in[r * weights.count()]);
  for (size_t n = 0; n < args.weight.rows; ++n) {
    weights.Read(n);
    for (size_t r = 0; r < args.out.rows; ++r) {
      const float y = weights.Dot(&in[args.RowOfIn(r) * weights.count()]);
      args.out.Row(r)[n] = args.bias.empty() ? y : y + args.bias[n];
    }
  }
}

}  // namespace

void MatMulReference(const MatMulArgs& args, Workspace&) {
  CHECK(args.Fits());
  if (IsSuperblockFormat(args.weight.dtype)) return SuperblockReference(args);
  std::vector<float> weight_row(args.weight.columns);
  for (size_t n = 0; n < args.weight.rows; ++n) {
    ReadRow(args.weight, n, weight_row);
    for (size_t r = 0; r < args.out.rows; ++r) {
      const std::span<const float> in = args.in.Row(args.RowOfIn(r));
      double sum = args.bias.empty() ? 0 : args.bias[n];
      for (size_t k = 0; k < in.size(); ++k) sum += static_cast<double>(in[k]) * weight_row[k];
      args.out.Row(r)[n] = static_cast<float>(sum);
    }
  }
}

void MatMulsReference(std::span<const MatMulArgs> calls, Workspace& workspace) {
  for (const MatMulArgs& call : calls) MatMulReference(call, workspace);
}

}  // namespace weft::kernels
