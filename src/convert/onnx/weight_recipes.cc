#include "convert/onnx/weight_recipes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/sha256.h"
#include "onnx/weights.h"
#include "program/codec.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace weft::convert {
namespace {

using lower::WeightRecipe;
using onnx::Tensor;
using program::Weight;

constexpr uint64_t kSlabBytes = 8 << 20;

const Tensor& TensorOf(const onnx::Graph& graph, const std::string& name) {
  const Tensor* tensor = graph.FindInitializer(name);
  CHECK(tensor != nullptr && tensor->has_data(), "the constant " + name);
  return *tensor;
}

// [.., rows, columns] to [.., columns, rows]. Reads the source once for every slab of the result.
Status WriteTransposed(const Tensor& tensor, const Share& share, const ArrayStore::Sink& sink) {
  const auto width = static_cast<uint64_t>(onnx::ElementBits(tensor.type)) / 8;
  const auto columns = static_cast<uint64_t>(tensor.dims.back());
  const auto rows = static_cast<uint64_t>(tensor.dims[tensor.dims.size() - 2]);
  const uint64_t matrix_bytes = rows * columns * width;
  const uint64_t slab = std::clamp<uint64_t>(kSlabBytes / (rows * width), 1, columns);
  std::vector<uint8_t> out(slab * rows * width);
  const uint64_t begin = share.First(tensor.byte_count);
  const uint64_t end = begin + share.Size(tensor.byte_count);
  for (uint64_t first = begin; first < end; first += matrix_bytes) {
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

// The row of the initializer that becomes row `row` of the weight. Interleaved rows of an expert
// are gate 0, up 0, gate 1, up 1, ...; the weight has gate 0, gate 1, ..., then up 0, up 1, ...:
// the even rows come first. With 4 rows an expert, rows 0 1 2 3 of the weight were 0 2 1 3.
uint64_t SourceRow(uint64_t row, uint64_t expert_rows, bool interleaved) {
  if (!interleaved) return row;
  const uint64_t in_expert = row % expert_rows, half = expert_rows / 2;
  return row - in_expert + (in_expert < half ? 2 * in_expert : 2 * (in_expert - half) + 1);
}

// Calls `write` with each row of a share of `rows` rows.
template <typename Write>
Status ForEachRow(uint64_t rows, const Share& share, const Write& write) {
  const uint64_t end = share.First(rows) + share.Size(rows);
  for (uint64_t row = share.First(rows); row < end; ++row) TRY(write(row));
  return OkStatus();
}

// Rows of [experts, rows, columns] with gate first and up below.
Status WriteDeinterleaved(const Tensor& tensor, const Share& share, const ArrayStore::Sink& sink) {
  const auto expert_rows = static_cast<uint64_t>(tensor.dims[1]);
  const uint64_t rows = static_cast<uint64_t>(tensor.dims[0]) * expert_rows;
  const uint64_t row_bytes = tensor.byte_count / rows;
  Pieces pieces(sink);
  TRY(ForEachRow(rows, share, [&](uint64_t row) {
    const uint64_t from = SourceRow(row, expert_rows, true);
    return pieces.Add(tensor.data.bytes().subspan(from * row_bytes, row_bytes));
  }));
  return pieces.Flush();
}

// Sizes of a block weight as it came and as programs have it.
struct Blocks {
  uint64_t rows = 0, columns = 0;
  uint64_t expert_rows = 0;
  bool interleaved = false;
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
  blocks.interleaved = recipe.interleaved;
  blocks.block_size = static_cast<uint64_t>(recipe.block_size);
  blocks.from = (blocks.columns + blocks.block_size - 1) / blocks.block_size;
  blocks.to = static_cast<uint64_t>(BlockCount(static_cast<int64_t>(blocks.columns)));
  blocks.data_bytes = static_cast<uint64_t>(BlockDataBytes(weight.dtype));
  blocks.from_row_bytes =
      blocks.from * blocks.block_size / static_cast<uint64_t>(kBlockValues) * blocks.data_bytes;
  return blocks;
}

bool DataFits(const Blocks& blocks) {
  return blocks.from_row_bytes == blocks.to * blocks.data_bytes && !blocks.interleaved;
}
bool ScaleFits(const onnx::Graph& graph, const WeightRecipe& recipe) {
  return recipe.block_size == kBlockValues && !recipe.interleaved &&
         TensorOf(graph, recipe.scale).type == onnx::ElementType::kFloat16;
}
bool ZeroFits(const WeightRecipe& recipe) {
  return recipe.block_size == kBlockValues && !recipe.interleaved;
}

std::string CutKey(const std::string& what, const WeightRecipe& recipe, const std::string& name) {
  return what + (recipe.interleaved ? "/deinterleaved/" : "/") + std::to_string(recipe.block_size) +
         "/" + name;
}

Status WriteCutData(const Tensor& data, const Blocks& blocks, const Share& share,
                    const ArrayStore::Sink& sink) {
  Pieces pieces(sink);
  TRY(ForEachRow(blocks.rows, share, [&](uint64_t row) {
    const uint64_t from = SourceRow(row, blocks.expert_rows, blocks.interleaved);
    return pieces.Add(
        data.data.bytes().subspan(from * blocks.from_row_bytes, blocks.to * blocks.data_bytes));
  }));
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

Status WriteScales(const Tensor& scale, const Blocks& blocks, const Share& share,
                   const ArrayStore::Sink& sink) {
  const uint64_t repeat = blocks.block_size / static_cast<uint64_t>(kBlockValues);
  Pieces pieces(sink);
  std::vector<uint16_t> out(blocks.to);
  TRY(ForEachRow(blocks.rows, share, [&](uint64_t row) {
    const uint64_t from = SourceRow(row, blocks.expert_rows, blocks.interleaved);
    const std::vector<float> values = ScaleRows(scale, from, 1, blocks.from);
    for (uint64_t i = 0; i < out.size(); ++i) out[i] = F32ToF16(values[i / repeat]);
    return pieces.Add(AsBytes(std::span<const uint16_t>(out)));
  }));
  return pieces.Flush();
}

Status WriteZeros(const Tensor& zero, const Blocks& blocks, const Share& share,
                  const ArrayStore::Sink& sink) {
  const uint64_t repeat = blocks.block_size / static_cast<uint64_t>(kBlockValues);
  const uint64_t from_row_bytes = (blocks.from + 1) / 2;
  Pieces pieces(sink);
  TRY(ForEachRow(blocks.rows, share, [&](uint64_t row) {
    const uint64_t source = SourceRow(row, blocks.expert_rows, blocks.interleaved);
    const uint8_t* from = zero.data.bytes().data() + source * from_row_bytes;
    std::vector<uint8_t> out(blocks.zero_row_bytes(), 0);
    for (uint64_t i = 0; i < blocks.to; ++i) {
      const uint64_t block = i / repeat;
      const int nibble = from[block / 2] >> (block % 2 * 4) & 15;
      out[i / 2] = static_cast<uint8_t>(out[i / 2] | nibble << (i % 2 * 4));
    }
    return pieces.Add(out);
  }));
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

// Adds the arrays of one weight of a layer's program.
class WeightAdder {
 public:
  // `experts` > 1: the weight stacks that many.
  WeightAdder(const onnx::Graph& graph, int layer, uint64_t experts, ArrayStore* store)
      : graph_(graph), layer_(layer), experts_(experts), store_(store) {}

  void Initializer(const std::string& name) {
    AddInitializer(graph_, name, layer_, store_, experts_);
  }
  void Transposed(const std::string& name) {
    AddTransposed(graph_, name, layer_, store_, experts_);
  }
  void Deinterleave(const WeightRecipe& recipe) {
    const Tensor& tensor = TensorOf(graph_, recipe.data);
    Add(CutKey("data", recipe, recipe.data), tensor.byte_count,
        [&tensor](const Share& share, const auto& sink) {
          return WriteDeinterleaved(tensor, share, sink);
        });
  }
  void Made(const std::string& key, const WeightRecipe& recipe) {
    Add(key, recipe.values.size() * sizeof(float), [&recipe](const Share& share, const auto& sink) {
      const std::span<const float> values(recipe.values);
      return sink(AsBytes(values.subspan(share.First(values.size()), share.Size(values.size()))));
    });
  }
  Status Block(const Weight& weight, const WeightRecipe& recipe, bool* rounded);

 private:
  void Add(const std::string& key, uint64_t byte_count, ArrayStore::Producer producer) {
    store_->Add(key, layer_, byte_count, std::move(producer), experts_);
  }

  const onnx::Graph& graph_;
  int layer_;
  uint64_t experts_;
  ArrayStore* store_;
};

Status WeightAdder::Block(const Weight& weight, const WeightRecipe& recipe, bool* rounded) {
  const Blocks blocks = BlocksOf(weight, recipe);
  const Tensor &data = TensorOf(graph_, recipe.data), &scale = TensorOf(graph_, recipe.scale);
  if (DataFits(blocks)) {
    Initializer(recipe.data);
  } else {
    Add(CutKey("data", recipe, recipe.data), blocks.rows * blocks.to * blocks.data_bytes,
        [&data, blocks](const Share& share, const auto& sink) {
          return WriteCutData(data, blocks, share, sink);
        });
  }
  if (ScaleFits(graph_, recipe)) {
    Initializer(recipe.scale);
  } else {
    TRY(CheckScales(scale, recipe.scale, blocks, rounded));
    Add(CutKey("scale", recipe, recipe.scale), blocks.rows * blocks.to * 2,
        [&scale, blocks](const Share& share, const auto& sink) {
          return WriteScales(scale, blocks, share, sink);
        });
  }
  if (recipe.zero.empty()) return OkStatus();
  if (ZeroFits(recipe)) {
    Initializer(recipe.zero);
    return OkStatus();
  }
  const Tensor& zero = TensorOf(graph_, recipe.zero);
  Add(CutKey("zero", recipe, recipe.zero), blocks.rows * blocks.zero_row_bytes(),
      [&zero, blocks](const Share& share, const auto& sink) {
        return WriteZeros(zero, blocks, share, sink);
      });
  return OkStatus();
}

// Whether all constants of a recipe have `experts` as their first dimension.
bool Stacks(const onnx::Graph& graph, const WeightRecipe& recipe, uint64_t experts) {
  for (const std::string* name : {&recipe.data, &recipe.scale, &recipe.zero}) {
    if (name->empty()) continue;
    const Tensor& tensor = TensorOf(graph, *name);
    if (tensor.dims.empty() || tensor.dims[0] != static_cast<int64_t>(experts)) return false;
  }
  return true;
}

// How many experts each weight of a layer stacks; 1 for the others.
std::vector<uint64_t> ExpertCounts(const onnx::Graph& graph, const lower::TracedLayer& layer) {
  const program::Program& program = layer.program;
  std::vector<uint64_t> counts(program.weights.size(), 1);
  for (const program::Op& op : program.ops) {
    const auto* experts = std::get_if<program::MoeExperts>(&op);
    if (experts == nullptr) continue;
    std::vector<program::WeightId> ids = {experts->gate_up, experts->down};
    if (experts->gate_up_bias) ids.push_back(*experts->gate_up_bias);
    if (experts->down_bias) ids.push_back(*experts->down_bias);
    for (const program::WeightId id : ids) {
      if (program.weights[id].shape[0] == experts->experts &&
          Stacks(graph, layer.recipes[id], experts->experts)) {
        counts[id] = experts->experts;
      }
    }
  }
  return counts;
}

// Names the values too: they are ours, not the source's, so that another version of weft may make
// others of the same source.
std::string MadeKey(uint32_t layer, const std::string& name, const WeightRecipe& recipe) {
  return "made/" + std::to_string(layer) + "/" + name + "/" +
         ToHex(Sha256(AsBytes(std::span<const float>(recipe.values))));
}

std::vector<program::Part> PartsAt(const ArrayStore& store, const std::string& key) {
  std::vector<program::Part> parts;
  for (const StoredArray& array : store.At(key)) {
    parts.push_back({array.blob.bytes(), array.offset, array.byte_count});
  }
  return parts;
}

void SetBlocks(const onnx::Graph& graph, const WeightRecipe& recipe, const ArrayStore& store,
               Weight* weight) {
  const Blocks blocks = BlocksOf(*weight, recipe);
  weight->data = PartsAt(
      store, DataFits(blocks) ? InitializerKey(recipe.data) : CutKey("data", recipe, recipe.data));
  weight->scale = PartsAt(store, ScaleFits(graph, recipe) ? InitializerKey(recipe.scale)
                                                          : CutKey("scale", recipe, recipe.scale));
  if (recipe.zero.empty()) return;
  weight->zero = PartsAt(
      store, ZeroFits(recipe) ? InitializerKey(recipe.zero) : CutKey("zero", recipe, recipe.zero));
}

}  // namespace

std::string InitializerKey(const std::string& name) {
  return "initializer/" + name;
}
std::string TransposedKey(const std::string& name) {
  return "transposed/" + name;
}

std::optional<std::string> DeinterleavedKey(const Weight& weight, const WeightRecipe& recipe) {
  if (!recipe.interleaved) return std::nullopt;
  if (recipe.form == WeightRecipe::Form::kBlocks) {
    const Blocks blocks = BlocksOf(weight, recipe);
    if (blocks.from_row_bytes != blocks.to * blocks.data_bytes) return std::nullopt;
  }
  return CutKey("data", recipe, recipe.data);
}

void AddInitializer(const onnx::Graph& graph, const std::string& name, int layer, ArrayStore* store,
                    uint64_t experts) {
  const Tensor& tensor = TensorOf(graph, name);
  store->Add(
      InitializerKey(name), layer, tensor.byte_count,
      [&tensor](const Share& share, const auto& sink) {
        Tensor piece = tensor;
        piece.byte_count = share.Size(tensor.byte_count);
        piece.data = tensor.data.Sub(share.First(tensor.byte_count), piece.byte_count);
        Status status = OkStatus();
        onnx::VisitBytes(piece, [&](ByteSpan bytes) {
          if (status.ok()) status = sink(bytes);
        });
        return status;
      },
      experts);
}

void AddTransposed(const onnx::Graph& graph, const std::string& name, int layer, ArrayStore* store,
                   uint64_t experts) {
  const Tensor& tensor = TensorOf(graph, name);
  store->Add(
      TransposedKey(name), layer, tensor.byte_count,
      [&tensor](const Share& share, const auto& sink) {
        return WriteTransposed(tensor, share, sink);
      },
      experts);
}

Status AddWeights(const onnx::Graph& graph, const lower::TracedLayer& layer, ArrayStore* store,
                  bool* rounded) {
  const std::vector<uint64_t> experts = ExpertCounts(graph, layer);
  for (size_t i = 0; i < layer.recipes.size(); ++i) {
    const Weight& weight = layer.program.weights[i];
    const WeightRecipe& recipe = layer.recipes[i];
    WeightAdder adder(graph, static_cast<int>(layer.program.layer_index), experts[i], store);
    switch (recipe.form) {
      case WeightRecipe::Form::kPlain:
        if (recipe.interleaved) {
          adder.Deinterleave(recipe);
        } else {
          adder.Initializer(recipe.data);
        }
        break;
      case WeightRecipe::Form::kTransposed:
        adder.Transposed(recipe.data);
        break;
      case WeightRecipe::Form::kBlocks:
        TRY(adder.Block(weight, recipe, rounded));
        break;
      case WeightRecipe::Form::kMade:
        adder.Made(MadeKey(layer.program.layer_index, weight.name, recipe), recipe);
        break;
    }
  }
  return OkStatus();
}

Result<program::Program> FinishProgram(const onnx::Graph& graph, const lower::TracedLayer& layer,
                                       const ArrayStore& store) {
  program::Program program = layer.program;
  for (size_t i = 0; i < layer.recipes.size(); ++i) {
    Weight& weight = program.weights[i];
    const WeightRecipe& recipe = layer.recipes[i];
    switch (recipe.form) {
      case WeightRecipe::Form::kPlain:
        weight.data = PartsAt(store, recipe.interleaved ? CutKey("data", recipe, recipe.data)
                                                        : InitializerKey(recipe.data));
        break;
      case WeightRecipe::Form::kTransposed:
        weight.data = PartsAt(store, TransposedKey(recipe.data));
        break;
      case WeightRecipe::Form::kBlocks:
        SetBlocks(graph, recipe, store, &weight);
        break;
      case WeightRecipe::Form::kMade:
        weight.data = PartsAt(store, MadeKey(program.layer_index, weight.name, recipe));
        break;
    }
  }
  TRY(program::Validate(program));
  return program;
}

}  // namespace weft::convert
