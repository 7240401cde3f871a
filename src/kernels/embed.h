// Embedding: row i of `out` is row token_ids[i] of the table, times `scale`.
#pragma once

#include "kernels/view.h"
#include "kernels/workspace.h"

namespace weft::kernels {

struct EmbedArgs {
  Matrix table;                        // [vocabulary, columns]
  std::span<const int32_t> token_ids;  // [rows], each in [0, vocabulary)
  float scale = 1;
  Rows out;  // [rows, columns]
};

void EmbedReference(const EmbedArgs& args, Workspace& workspace);

}  // namespace weft::kernels
