#include "kernels/matmul.h"

#include <vector>

#include "kernels/q4s_panels.h"
#include "kernels/q4s_rows.h"

namespace weft::kernels {
namespace {

void Q4sReference(const MatMulArgs& args) {
  const size_t superblocks = args.weight.scale_words() / kSuperblockWords;
  std::vector<Q4sInput> in(args.in.rows * superblocks);
  for (size_t r = 0; r < args.in.rows; ++r) PrepareQ4sRow(args.in.Row(r), &in[r * superblocks]);
  std::vector<int8_t> weights(args.weight.columns);
  std::vector<float> scales(superblocks);
  for (size_t n = 0; n < args.weight.rows; ++n) {
    ReadQ4sRow(args.weight, n, weights, scales);
    for (size_t r = 0; r < args.in.rows; ++r) {
      const float y = Q4sDot(weights, scales, &in[r * superblocks]);
      args.out.Row(r)[n] = args.bias.empty() ? y : y + args.bias[n];
    }
  }
}

}  // namespace

void MatMulReference(const MatMulArgs& args, Workspace&) {
  CHECK(args.in.columns == args.weight.columns && args.out.columns == args.weight.rows &&
        args.in.rows == args.out.rows &&
        (args.bias.empty() || args.bias.size() == args.out.columns));
  if (args.weight.dtype == DType::kQ4S) return Q4sReference(args);
  std::vector<float> weight_row(args.weight.columns);
  for (size_t n = 0; n < args.weight.rows; ++n) {
    ReadRow(args.weight, n, weight_row);
    for (size_t r = 0; r < args.in.rows; ++r) {
      const std::span<const float> in = args.in.Row(r);
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
