#include "kernels/add.h"

namespace weft::kernels {

namespace {

void AddRow(const AddArgs& args, size_t row) {
  const float* a = args.a.Row(row).data();
  const float* b = args.b.Row(row).data();
  float* out = args.out.Row(row).data();
  for (size_t i = 0; i < args.out.columns; ++i) out[i] = a[i] + b[i];
}

void CheckShapes(const AddArgs& args) {
  CHECK(args.a.rows == args.out.rows && args.b.rows == args.out.rows &&
        args.a.columns == args.out.columns && args.b.columns == args.out.columns);
}

}  // namespace

void AddReference(const AddArgs& args, Workspace&) {
  CheckShapes(args);
  for (size_t row = 0; row < args.out.rows; ++row) AddRow(args, row);
}

void AddRows(const AddArgs& args, Workspace& workspace) {
  CheckShapes(args);
  ForRows(args.out.rows, workspace, [&](size_t row) { AddRow(args, row); });
}

}  // namespace weft::kernels
