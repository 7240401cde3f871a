#include "convert/weight_recipes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "onnx/weights.h"
#include "program/codec.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace weft::convert {
namespace {

using onnx::Tensor;
using program::Weight;
using program::WeightRecipe;

constexpr uint64_t kSlabBytes = 8 << 20;

const Tensor& TensorOf(const onnx::Graph& graph, const std::string& name) {
  const Tensor* tensor = graph.FindInitializer(name);
  CHECK(tensor != nullptr && tensor->has_data(), "the constant " + name);
  return *tensor;
}

// [.., rows, columns] to [.., columns, rows]. Reads the source once for every slab of the result.
Status WriteTransposed(const Tensor& tensor, const ArrayStore::Sink& sink) {
  const auto width = static_cast<uint64_t>(onnx::ElementBits(tensor.type)) / 8;
  const auto columns = static_cast<uint64_t>(tensor.dims.back());
  const auto rows = static_cast<uint64_t>(tensor.dims[tensor.dims.size() - 2]);
  const uint64_t matrix_bytes = rows * columns * width;
  const uint64_t slab = std::clamp<uint64_t>(kSlabBytes / (rows * width), 1, columns);
  std::vector<uint8_t> out(slab * rows * width);
  for (uint64_t first = 0; first < tensor.byte_count; first += matrix_bytes) {
    const uint8_t* matrix = tensor.data.bytes().data() + first;
    for (uint64_t column = 0; column < columns; column += slab) {
      const uint64_t count = std::min(slab, columns - column);
      for (uint64_t row = 0; row < rows; ++row) {
        const uint8_t* from = matrix + (row * columns + column) * width;
        for (uint64_t i = 0; i < count; ++i) {
          std::memcpy(out.data() + (i * rows + row) * width, from + i * width, width);
        }
      }
      TRY(sink(ByteSpan(out).first(count * rows * width)));
      onnx::DropPages(tensor);
    }
  }
  return OkStatus();
}

// Collects short rows into pieces that are worth writing.
class Pieces {
 public:
  explicit Pieces(const ArrayStore::Sink& sink) : sink_(sink) {}
  Status Add(ByteSpan bytes) {
    piece_.insert(piece_.end(), bytes.begin(), bytes.end());
    return piece_.size() < kPieceBytes ? OkStatus() : Flush();
  }
  Status Flush() {
    TRY(sink_(piece_));
    piece_.clear();
    return OkStatus();
  }

 private:
  static constexpr size_t kPieceBytes = 1 << 20;
  const ArrayStore::Sink& sink_;
  std::vector<uint8_t> piece_;
};

// The row that row `row` of a weight was: with gate and up in turn (WeightRecipe::in_turn) each
// expert's even rows come first.
uint64_t SourceRow(uint64_t row, uint64_t expert_rows, bool in_turn) {
  if (!in_turn) return row;
  const uint64_t in_expert = row % expert_rows, half = expert_rows / 2;
  return row - in_expert + (in_expert < half ? 2 * in_expert : 2 * (in_expert - half) + 1);
}

// Rows of [experts, rows, columns] with gate first and up below.
Status WriteApart(const Tensor& tensor, const ArrayStore::Sink& sink) {
  const auto expert_rows = static_cast<uint64_t>(tensor.dims[1]);
  const uint64_t rows = static_cast<uint64_t>(tensor.dims[0]) * expert_rows;
  const uint64_t row_bytes = tensor.byte_count / rows;
  Pieces pieces(sink);
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t from = SourceRow(row, expert_rows, true);
    TRY(pieces.Add(tensor.data.bytes().subspan(from * row_bytes, row_bytes)));
  }
  return pieces.Flush();
}

// Sizes of a block weight as it came and as programs have it.
struct Blocks {
  uint64_t rows = 0, columns = 0;
  uint64_t expert_rows = 0;
  bool in_turn = false;
  uint64_t block_size = 0;      // as it came
  uint64_t from = 0, to = 0;    // blocks in a row, as they came and of 32
  uint64_t data_bytes = 0;      // of a block of 32
  uint64_t from_row_bytes = 0;  // of data

  uint64_t zero_row_bytes() const { return (to + 1) / 2; }
};

Blocks BlocksOf(const Weight& weight, const WeightRecipe& recipe) {
  Blocks blocks;
  blocks.columns = weight.shape.back();
  blocks.rows = 1;
  for (size_t i = 0; i + 1 < weight.shape.size(); ++i) blocks.rows *= weight.shape[i];
  blocks.expert_rows = weight.shape[weight.shape.size() - 2];
  blocks.in_turn = recipe.in_turn;
  blocks.block_size = static_cast<uint64_t>(recipe.block_size);
  blocks.from = (blocks.columns + blocks.block_size - 1) / blocks.block_size;
  blocks.to = static_cast<uint64_t>(BlockCount(static_cast<int64_t>(blocks.columns)));
  blocks.data_bytes = static_cast<uint64_t>(BlockDataBytes(weight.dtype));
  blocks.from_row_bytes =
      blocks.from * blocks.block_size / static_cast<uint64_t>(kBlockValues) * blocks.data_bytes;
  return blocks;
}

bool DataFits(const Blocks& blocks) {
  return blocks.from_row_bytes == blocks.to * blocks.data_bytes && !blocks.in_turn;
}
bool ScaleFits(const onnx::Graph& graph, const WeightRecipe& recipe) {
  return recipe.block_size == kBlockValues && !recipe.in_turn &&
         TensorOf(graph, recipe.scale).type == onnx::ElementType::kFloat16;
}
bool ZeroFits(const WeightRecipe& recipe) {
  return recipe.block_size == kBlockValues && !recipe.in_turn;
}

std::string CutKey(const std::string& what, const WeightRecipe& recipe, const std::string& name) {
  return what + (recipe.in_turn ? "/apart/" : "/") + std::to_string(recipe.block_size) + "/" + name;
}

Status WriteCutData(const Tensor& data, const Blocks& blocks, const ArrayStore::Sink& sink) {
  Pieces pieces(sink);
  for (uint64_t row = 0; row < blocks.rows; ++row) {
    const uint64_t from = SourceRow(row, blocks.expert_rows, blocks.in_turn);
    TRY(pieces.Add(
        data.data.bytes().subspan(from * blocks.from_row_bytes, blocks.to * blocks.data_bytes)));
  }
  return pieces.Flush();
}

// The scales of `rows` rows from `first` on, as floats.
std::vector<float> ScaleRows(const Tensor& scale, uint64_t first, uint64_t rows, uint64_t blocks) {
  const DType dtype = *onnx::ToDType(scale.type);
  std::vector<float> values(rows * blocks);
  ToF32(dtype,
        scale.data.bytes().data() + first * blocks * static_cast<uint64_t>(ElementBytes(dtype)),
        values);
  return values;
}

Status WriteScales(const Tensor& scale, const Blocks& blocks, const ArrayStore::Sink& sink) {
  const uint64_t repeat = blocks.block_size / static_cast<uint64_t>(kBlockValues);
  Pieces pieces(sink);
  std::vector<uint16_t> out(blocks.to);
  for (uint64_t row = 0; row < blocks.rows; ++row) {
    const uint64_t from = SourceRow(row, blocks.expert_rows, blocks.in_turn);
    const std::vector<float> values = ScaleRows(scale, from, 1, blocks.from);
    for (uint64_t i = 0; i < out.size(); ++i) out[i] = F32ToF16(values[i / repeat]);
    TRY(pieces.Add(AsBytes(std::span<const uint16_t>(out))));
  }
  return pieces.Flush();
}

Status WriteZeros(const Tensor& zero, const Blocks& blocks, const ArrayStore::Sink& sink) {
  const uint64_t repeat = blocks.block_size / static_cast<uint64_t>(kBlockValues);
  const uint64_t from_row_bytes = (blocks.from + 1) / 2;
  Pieces pieces(sink);
  for (uint64_t row = 0; row < blocks.rows; ++row) {
    const uint64_t source = SourceRow(row, blocks.expert_rows, blocks.in_turn);
    const uint8_t* from = zero.data.bytes().data() + source * from_row_bytes;
    std::vector<uint8_t> out(blocks.zero_row_bytes(), 0);
    for (uint64_t i = 0; i < blocks.to; ++i) {
      const uint64_t block = i / repeat;
      const int nibble = from[block / 2] >> (block % 2 * 4) & 15;
      out[i / 2] = static_cast<uint8_t>(out[i / 2] | nibble << (i % 2 * 4));
    }
    TRY(pieces.Add(out));
  }
  return pieces.Flush();
}

constexpr uint64_t kScaleRows = 4096;

// Scales that float16 cannot hold at all are an error; those it rounds are told of.
Status CheckScales(const Tensor& scale, const std::string& name, const Blocks& blocks,
                   bool* rounded) {
  for (uint64_t first = 0; first < blocks.rows; first += kScaleRows) {
    const uint64_t rows = std::min(kScaleRows, blocks.rows - first);
    for (const float value : ScaleRows(scale, first, rows, blocks.from)) {
      const float held = F16ToF32(F32ToF16(value));
      if (!std::isfinite(held)) {
        return Error(ErrorCode::kUnsupported, "The scales '" + name + "' hold " +
                                                  std::to_string(value) +
                                                  ", which float16 cannot hold.");
      }
      *rounded |= held != value;
    }
  }
  return OkStatus();
}

Status AddBlocks(const onnx::Graph& graph, const Weight& weight, const WeightRecipe& recipe,
                 int layer, ArrayStore* store, bool* rounded) {
  const Blocks blocks = BlocksOf(weight, recipe);
  const Tensor &data = TensorOf(graph, recipe.data), &scale = TensorOf(graph, recipe.scale);
  if (DataFits(blocks)) {
    AddInitializer(graph, recipe.data, layer, store);
  } else {
    store->Add(CutKey("data", recipe, recipe.data), layer,
               blocks.rows * blocks.to * blocks.data_bytes,
               [&data, blocks](const auto& sink) { return WriteCutData(data, blocks, sink); });
  }
  if (ScaleFits(graph, recipe)) {
    AddInitializer(graph, recipe.scale, layer, store);
  } else {
    TRY(CheckScales(scale, recipe.scale, blocks, rounded));
    store->Add(CutKey("scale", recipe, recipe.scale), layer, blocks.rows * blocks.to * 2,
               [&scale, blocks](const auto& sink) { return WriteScales(scale, blocks, sink); });
  }
  if (recipe.zero.empty()) return OkStatus();
  if (ZeroFits(recipe)) {
    AddInitializer(graph, recipe.zero, layer, store);
    return OkStatus();
  }
  const Tensor& zero = TensorOf(graph, recipe.zero);
  store->Add(CutKey("zero", recipe, recipe.zero), layer, blocks.rows * blocks.zero_row_bytes(),
             [&zero, blocks](const auto& sink) { return WriteZeros(zero, blocks, sink); });
  return OkStatus();
}

std::string MadeKey(uint32_t layer, const std::string& name) {
  return "made/" + std::to_string(layer) + "/" + name;
}

program::Part PartAt(const ArrayStore& store, const std::string& key) {
  const StoredArray& array = store.At(key);
  return {array.blob.bytes(), array.offset, array.byte_count};
}

void SetBlocks(const onnx::Graph& graph, const WeightRecipe& recipe, const ArrayStore& store,
               Weight* weight) {
  const Blocks blocks = BlocksOf(*weight, recipe);
  weight->data = {PartAt(
      store, DataFits(blocks) ? InitializerKey(recipe.data) : CutKey("data", recipe, recipe.data))};
  weight->scale = {PartAt(store, ScaleFits(graph, recipe) ? InitializerKey(recipe.scale)
                                                          : CutKey("scale", recipe, recipe.scale))};
  if (recipe.zero.empty()) return;
  weight->zero = {PartAt(
      store, ZeroFits(recipe) ? InitializerKey(recipe.zero) : CutKey("zero", recipe, recipe.zero))};
}

}  // namespace

std::string InitializerKey(const std::string& name) {
  return "initializer/" + name;
}
std::string TransposedKey(const std::string& name) {
  return "transposed/" + name;
}

std::optional<std::string> ApartKey(const Weight& weight, const WeightRecipe& recipe) {
  if (!recipe.in_turn) return std::nullopt;
  if (recipe.form == WeightRecipe::Form::kBlocks) {
    const Blocks blocks = BlocksOf(weight, recipe);
    if (blocks.from_row_bytes != blocks.to * blocks.data_bytes) return std::nullopt;
  }
  return CutKey("data", recipe, recipe.data);
}

void AddInitializer(const onnx::Graph& graph, const std::string& name, int layer,
                    ArrayStore* store) {
  const Tensor& tensor = TensorOf(graph, name);
  store->Add(InitializerKey(name), layer, tensor.byte_count, [&tensor](const auto& sink) {
    Status status = OkStatus();
    onnx::VisitBytes(tensor, [&](ByteSpan bytes) {
      if (status.ok()) status = sink(bytes);
    });
    return status;
  });
}

void AddTransposed(const onnx::Graph& graph, const std::string& name, int layer,
                   ArrayStore* store) {
  const Tensor& tensor = TensorOf(graph, name);
  store->Add(TransposedKey(name), layer, tensor.byte_count,
             [&tensor](const auto& sink) { return WriteTransposed(tensor, sink); });
}

Status AddWeights(const onnx::Graph& graph, const program::TracedLayer& layer, ArrayStore* store,
                  bool* rounded) {
  const auto index = static_cast<int>(layer.program.layer_index);
  for (size_t i = 0; i < layer.recipes.size(); ++i) {
    const Weight& weight = layer.program.weights[i];
    const WeightRecipe& recipe = layer.recipes[i];
    switch (recipe.form) {
      case WeightRecipe::Form::kPlain:
        if (recipe.in_turn) {
          const Tensor& tensor = TensorOf(graph, recipe.data);
          store->Add(CutKey("data", recipe, recipe.data), index, tensor.byte_count,
                     [&tensor](const auto& sink) { return WriteApart(tensor, sink); });
        } else {
          AddInitializer(graph, recipe.data, index, store);
        }
        break;
      case WeightRecipe::Form::kTransposed:
        AddTransposed(graph, recipe.data, index, store);
        break;
      case WeightRecipe::Form::kBlocks:
        TRY(AddBlocks(graph, weight, recipe, index, store, rounded));
        break;
      case WeightRecipe::Form::kMade:
        store->Add(MadeKey(layer.program.layer_index, weight.name), index,
                   recipe.values.size() * sizeof(float), [&recipe](const auto& sink) {
                     return sink(AsBytes(std::span<const float>(recipe.values)));
                   });
        break;
    }
  }
  return OkStatus();
}

Result<program::Program> FinishProgram(const onnx::Graph& graph, const program::TracedLayer& layer,
                                       const ArrayStore& store) {
  program::Program program = layer.program;
  for (size_t i = 0; i < layer.recipes.size(); ++i) {
    Weight& weight = program.weights[i];
    const WeightRecipe& recipe = layer.recipes[i];
    switch (recipe.form) {
      case WeightRecipe::Form::kPlain:
        weight.data = {PartAt(store, recipe.in_turn ? CutKey("data", recipe, recipe.data)
                                                    : InitializerKey(recipe.data))};
        break;
      case WeightRecipe::Form::kTransposed:
        weight.data = {PartAt(store, TransposedKey(recipe.data))};
        break;
      case WeightRecipe::Form::kBlocks:
        SetBlocks(graph, recipe, store, &weight);
        break;
      case WeightRecipe::Form::kMade:
        weight.data = {PartAt(store, MadeKey(program.layer_index, weight.name))};
        break;
    }
  }
  TRY(program::Validate(program));
  return program;
}

}  // namespace weft::convert
