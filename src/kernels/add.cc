#include "kernels/add.h"

namespace weft::kernels {

void AddReference(const AddArgs& args, Workspace&) {
  CHECK(args.a.rows == args.out.rows && args.b.rows == args.out.rows &&
        args.a.columns == args.out.columns && args.b.columns == args.out.columns);
  for (size_t row = 0; row < args.out.rows; ++row) {
    const float* a = args.a.Row(row).data();
    const float* b = args.b.Row(row).data();
    float* out = args.out.Row(row).data();
    for (size_t i = 0; i < args.out.columns; ++i) out[i] = a[i] + b[i];
  }
}

}  // namespace weft::kernels
