// The program of one layer is a flat list of LLM-level operations over named f32 buffers and
// weights. Operations run in order, and a buffer may be written again. Engines interpret it; the
// planner never sees it. ops.json says what operations there are, their fields and what must hold
// of them. The build makes ops.gen.h of it (docs/adding-an-op.md).
//
// Every buffer is [rows, columns] f32, and its rows are the tokens of a ragged batch. Weights of a
// MatMul are [N, K] (out = in * W^T + bias), as checkpoints store them. Layer 0 begins with Embed,
// which reads token ids, and may have more of them (a table for each layer). The last layer ends
// with logits [rows, vocabulary] in its output buffer. Selection (argmax, candidates, ...) is what
// each row asks of the engine (engine/engine.h), not part of a program.
//
// An operation with `in_place` in ops.json may write exactly the view that it reads. The codec
// refuses every other overlap of an operation's output with its inputs. It also refuses reading
// columns that nothing wrote before.
//
// Recurrent operations (CausalConv, DeltaRule, SsmScan) carry f32 state of a fixed size from row to
// row of a session, zero before position 0. A layer's state is that of its operations one after the
// other, in the order of the program (program/state.h). Rows are taken strictly in order, one at a
// time. A form that takes chunks would change bits with the cut of a prompt.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/sha256.h"
#include "program/ops.gen.h"
#include "program/views.h"
#include "tensor/dtype.h"

namespace weft::program {

// A part is bytes [offset, offset + byte_count) of the blob with this digest.
struct Part {
  Sha256Digest digest{};
  uint64_t offset = 0;
  uint64_t byte_count = 0;
};

// A weight is a tensor of the model. Its data is the concatenation of its parts; a stacked expert
// tensor has one or more parts an expert. tensor/dtype.h describes the arrays of block formats.
struct Weight {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // [columns], [rows, columns] or [experts, rows, columns]
  std::vector<Part> data;
  std::vector<Part> scale;  // block formats only
  std::vector<Part> zero;   // q4 with zero points only
};

struct Buffer {
  std::string name;
  uint32_t columns = 0;
};

struct Program {
  uint32_t layer_index = 0;
  std::vector<Buffer> buffers;
  std::vector<Weight> weights;
  std::vector<Op> ops;
  std::optional<BufferId> input;  // receives the residual stream; none for the embedding
  BufferId output = 0;            // the residual stream, or the logits of the output head
};

// The Attention of a layer that has one, else nullptr.
const Attention* FindAttention(const Program& program);

// The experts of a layer; nullptr where it has none.
const MoeExperts* FindExperts(const Program& program);

// Gives the operation's name for messages: "MatMul", "Attention", ...
std::string_view OpName(const Op& op);

}  // namespace weft::program
