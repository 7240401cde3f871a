// A tensor of a checkpoint, whatever kind of file holds it. Nothing is copied: the bytes are a
// slice of the mapped file.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "convert/source/coded_matrix.h"
#include "convert/source/row_format.h"

namespace weft::convert {

struct SourceTensor {
  std::string file;                 // name of the file, for messages
  std::string own_name;             // in the file, where that is not the name it is known by
  std::string version;              // changes when the file does: its length and time of change
  std::string type_name;            // as the file spells it: "F32", "F8_E4M3", "Q4_K", ...
  std::optional<RowFormat> format;  // nullopt: a type that weft does not convert
  std::vector<uint64_t> shape;      // outermost dimension first
  Slice bytes;
  // Of a coded format: reads the values. `bytes` are the codes, `shape` is that of the values.
  std::shared_ptr<const CodedMatrix> coded = nullptr;
  // Rows of each head (this many) lie as 0, n/2, 1, n/2 + 1, ... instead of in order: llama.cpp
  // rotates neighbouring columns, Hugging Face column i with i + n/2. 0: rows lie in order.
  uint64_t interleaved_rows = 0;
  // A norm weight w of Gemma, of which Hugging Face checkpoints hold w - 1, is w here.
  bool norm_holds_one = false;
  // The logarithm of a decay, of which Hugging Face checkpoints hold A_log, is -exp(A_log) here.
  bool holds_decay = false;
};

// By the names that Hugging Face checkpoints give them.
using TensorMap = std::map<std::string, SourceTensor, std::less<>>;

// The name to call a tensor by in messages: its own in the file.
inline const std::string& NameInFile(const std::string& name, const SourceTensor& tensor) {
  return tensor.own_name.empty() ? name : tensor.own_name;
}

// "[2, 3]"
std::string ShapeText(const std::vector<uint64_t>& shape);

}  // namespace weft::convert
