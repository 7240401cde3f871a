// One weight of a package and the rows of a checkpoint that it is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::convert {

enum class WeightRole {
  kVector,      // norm weights and biases: always f32
  kMatrix,      // a projection of a transformer layer: as --quant says
  kExpert,      // a projection of an expert: as --quant says where its rows are whole blocks
  kRouter,      // chooses experts: f16 at least
  kVocabulary,  // embedding table and output head: q8, or q6k beside q4s
  kTable,       // a layer's own table: as --quant says where its rows are whole blocks
};

// Rows of a weight as they lie in one tensor of the checkpoint. The tensor is seen as a matrix of
// `columns` columns whatever its shape is: row r of the piece is row first_row + r * row_step of
// it. A transposed tensor [.., columns, all_columns] is one for each matrix of its first dimension:
// row r is column first_row + r * row_step of matrix `matrix`.
struct SourcePiece {
  std::string tensor;
  std::vector<uint64_t> shape;  // of the whole tensor
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t first_row = 0;
  uint64_t row_step = 1;
  bool transposed = false;
  uint64_t matrix = 0;
  // MXFP4: `tensor` holds u8 blocks [.., columns / 32, 16], this one their u8 exponents
  // [.., columns / 32].
  std::string exponents = {};
  // Of a transposed tensor: rows from matrix to matrix, where that is more than `columns`.
  uint64_t matrix_rows = 0;
  // Every value times element `factor_index` of the vector of this name, of `factor_count`.
  std::string factors = {};
  uint64_t factor_count = 0;
  uint64_t factor_index = 0;
};

// One weight of the package: its pieces one below the other.
struct WeightSpec {
  std::string name;  // in the package, e.g. "model.layers.0.mlp.up_proj.weight"
  WeightRole role = WeightRole::kMatrix;
  std::vector<uint64_t> shape;  // [columns] or [rows, columns]
  std::vector<SourcePiece> pieces;
  float offset = 0;  // added to every value
  // Consecutive weights with the same name here share a blob (an expert); "": the weight has its
  // own, or the layer's.
  std::string blob;
  bool minus_exp = false;  // the weight is -exp(value): the decay of recurrent layers
  float factor = 1;        // of every value
};

// "model.layers.3." for package layer 4.
std::string LayerPrefix(uint32_t package_layer);
// "model.embed_tokens_per_layer.3.weight" for transformer layer 3, counted from 0.
std::string LayerTableName(uint32_t layer);
// "model.layers.3.mlp.experts.5." for package layer 4.
std::string ExpertPrefix(uint32_t package_layer, uint32_t expert);

}  // namespace weft::convert
