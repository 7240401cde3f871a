#include "kernels/embed.h"

namespace weft::kernels {

void EmbedReference(const EmbedArgs& args, Workspace& workspace) {
  CHECK(args.token_ids.size() == args.out.rows && args.table.columns == args.out.columns);
  workspace.threads().Run(args.out.rows, [&](size_t row, size_t) {
    const std::span<float> out = args.out.Row(row);
    ReadRow(args.table, static_cast<size_t>(args.token_ids[row]), out);
    if (args.scale == 1) return;
    for (float& x : out) x *= args.scale;
  });
}

}  // namespace weft::kernels
