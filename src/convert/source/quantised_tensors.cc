#include "convert/source/quantised_tensors.h"

#include <algorithm>
#include <array>
#include <bit>

#include "convert/source/json_reader.h"
#include "tensor/blocks.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

constexpr std::string_view kConverted =
    "checkpoints that are quantised already are not converted, but for FP8 (fp8, fbgemm_fp8, "
    "modelopt and compressed-tensors with scales of matrices, rows or blocks), GPTQ of 4 or 8 "
    "bits, "
    "AWQ of 4 bits and MXFP4. Use the original checkpoint with --quant q4 or q8.";

enum class Method { kNone, kFp8, kGptq, kAwq };

struct Quantisation {
  Method method = Method::kNone;
  std::array<uint64_t, 2> fp8_block = {128, 128};  // rows, columns
  uint32_t bits = 4;                               // of GPTQ's whole numbers
  bool is_older_gptq = true;                       // its zero points are stored less 1
};

Error Refused(const std::string& method) {
  return Error(ErrorCode::kUnsupported, "config.json has a 'quantization_config' with " + method +
                                            ": " + std::string(kConverted));
}

Status ReadFp8Block(const JsonReader& config, Quantisation* out) {
  ASSIGN_OR_RETURN(const json::array* block, config.Array("weight_block_size"));
  if (block == nullptr) return OkStatus();
  for (size_t i = 0; i < 2; ++i) {
    json::error_code failure;
    const bool fits = block->size() == 2 && (*block)[i].is_number();
    const auto length = fits ? (*block)[i].to_number<uint64_t>(failure) : 0;
    if (!fits || failure || length == 0) {
      return Error(ErrorCode::kInvalidData, "'weight_block_size' in config.json is " +
                                                Excerpt(json::value(*block)) +
                                                "; expected two whole numbers of 1 or more.");
    }
    out->fp8_block[i] = length;
  }
  return OkStatus();
}

Result<Quantisation> ReadQuantisation(const JsonReader& config) {
  Quantisation out;
  ASSIGN_OR_RETURN(const std::string method, config.Text("quant_method", ""));
  if (method == "mxfp4") return out;  // blocks and scales are tensors that have names of their own
  if (method == "fp8" || method == "fbgemm_fp8") {
    out.method = Method::kFp8;
    TRY(ReadFp8Block(config, &out));
  } else if (method == "modelopt") {
    ASSIGN_OR_RETURN(const std::string algorithm, config.Text("quant_algo", ""));
    if (algorithm != "FP8") return Refused("the method 'modelopt " + Printable(algorithm) + "'");
    out.method = Method::kFp8;
  } else if (method == "compressed-tensors") {
    ASSIGN_OR_RETURN(const std::string format, config.Text("format", ""));
    if (format != "float-quantized" && format != "naive-quantized") {
      return Refused("the method 'compressed-tensors' and the format '" + Printable(format) + "'");
    }
    out.method = Method::kFp8;
  } else if (method == "gptq") {
    out.method = Method::kGptq;
    ASSIGN_OR_RETURN(const std::string format, config.Text("checkpoint_format", "gptq"));
    if (format != "gptq" && format != "gptq_v2") {
      return Refused("the method 'gptq' and the format '" + Printable(format) + "'");
    }
    out.is_older_gptq = format == "gptq";
    ASSIGN_OR_RETURN(const uint64_t bits, config.Whole("bits", 1, 16, 4));
    if (bits != 4 && bits != 8)
      return Refused("the method 'gptq' of " + std::to_string(bits) + " bits");
    out.bits = static_cast<uint32_t>(bits);
  } else if (method == "awq") {
    out.method = Method::kAwq;
    ASSIGN_OR_RETURN(const std::string version, config.Text("version", "gemm"));
    if (version != "gemm" && version != "GEMM") {
      return Refused("the method 'awq' and the version '" + Printable(version) + "'");
    }
  } else {
    return Refused("the method '" + Printable(method) + "'");
  }
  return out;
}

Error Misfit(const std::string& name, const SourceTensor& tensor, const std::string& expected) {
  return Error(ErrorCode::kInvalidData, "Tensor '" + NameInFile(name, tensor) + "' of '" +
                                            tensor.file + "' has shape " + ShapeText(tensor.shape) +
                                            " and dtype " + tensor.type_name + "; expected " +
                                            expected + ".");
}

bool IsFp8(const SourceTensor& tensor) {
  return tensor.type_name == "F8_E4M3" || tensor.type_name == "F8_E5M2";
}

uint64_t CeilDiv(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

// How a matrix that is known by a sibling's name ends: "model.x." + "qweight".
std::string Sibling(std::string_view name, std::string_view ending, std::string_view other) {
  return std::string(name.substr(0, name.size() - ending.size())) + std::string(other);
}

class Presenter {
 public:
  Presenter(const Quantisation& quantisation, TensorMap* tensors)
      : quantisation_(quantisation), tensors_(*tensors) {}

  Status Run() {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) {
      const bool is_packed = name.ends_with(".qweight") && quantisation_.method != Method::kFp8;
      if (is_packed || (IsFp8(tensor) && quantisation_.method == Method::kFp8)) {
        names.push_back(name);
      }
    }
    for (const std::string& name : names) {
      TRY(quantisation_.method == Method::kFp8 ? PresentFp8(name) : PresentGroups(name));
    }
    return OkStatus();
  }

 private:
  const SourceTensor* Find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  Status PresentFp8(const std::string& name) {
    SourceTensor& tensor = tensors_.find(name)->second;
    if (tensor.shape.size() != 2 && tensor.shape.size() != 3) {
      return Misfit(name, tensor, "a matrix, or a stack of matrices, in FP8");
    }
    std::string scale_name = name + "_scale_inv";
    if (Find(scale_name) == nullptr) scale_name = name + "_scale";
    const SourceTensor* scale = Find(scale_name);
    if (scale == nullptr) {
      return Error(ErrorCode::kInvalidData, "The checkpoint has '" + name +
                                                "' in FP8, but neither '" + name +
                                                "_scale_inv' nor '" + name + "_scale'.");
    }
    ASSIGN_OR_RETURN(Fp8Scales scales, ReadFp8Scales(scale_name, *scale, tensor));
    const bool is_e4m3 = tensor.type_name == "F8_E4M3";
    tensor.format = is_e4m3 ? RowFormat::kF8E4M3 : RowFormat::kF8E5M2;
    tensor.coded = MakeFp8Matrix(is_e4m3 ? Fp8Type::kE4M3 : Fp8Type::kE5M2, tensor.bytes,
                                 tensor.shape.back(), std::move(scales));
    tensor.version += scale->version;
    tensors_.erase(scale_name);
    return OkStatus();
  }

  // Scales [1], [rows, 1] or [row blocks, column blocks], each before it the matrices of a stack.
  Result<Fp8Scales> ReadFp8Scales(const std::string& name, const SourceTensor& scale,
                                  const SourceTensor& matrix) const {
    const uint64_t columns = matrix.shape.back(), rows = matrix.shape[matrix.shape.size() - 2];
    const uint64_t matrices = matrix.shape.size() == 3 ? matrix.shape[0] : 1;
    uint64_t count = 1;
    for (const uint64_t length : scale.shape) count *= length;
    const auto [block_rows, block_columns] = quantisation_.fp8_block;
    const uint64_t row_blocks = CeilDiv(rows, block_rows);
    const uint64_t column_blocks = CeilDiv(columns, block_columns);
    const bool is_grid = scale.shape.size() >= 2 && scale.shape.back() == column_blocks &&
                         scale.shape[scale.shape.size() - 2] == row_blocks;
    Fp8Scales out{.values = {}, .block_rows = rows, .block_columns = columns};
    out.matrix_rows = rows;
    if (is_grid && count == matrices * row_blocks * column_blocks) {
      out.block_rows = block_rows;
      out.block_columns = block_columns;
      out.column_blocks = column_blocks;
      out.row_blocks = row_blocks;
    } else if (count == matrices * rows) {
      out.block_rows = 1;
      out.row_blocks = rows;
    } else if (count != matrices && count != 1) {
      return Misfit(name, scale,
                    "one scale, one for each of " + std::to_string(rows) + " rows, or [" +
                        std::to_string(row_blocks) + ", " + std::to_string(column_blocks) +
                        "] for blocks of " + std::to_string(block_rows) + " x " +
                        std::to_string(block_columns));
    }
    // One for the whole stack.
    if (count == 1) out.matrix_rows = out.block_rows = rows * matrices;
    out.values.resize(count);
    TRY(ReadScales(name, scale, out.values));
    return out;
  }

  static Status ReadScales(const std::string& name, const SourceTensor& scale,
                           std::span<float> values) {
    const uint8_t* bytes = scale.bytes.bytes().data();
    if (scale.type_name == "F8_E8M0") {  // powers of two, 2^(code - 127)
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = std::bit_cast<float>(uint32_t{bytes[i]} << 23);
        if (bytes[i] == 0) values[i] = 0x1p-127f;
      }
    } else if (scale.format && IsPlain(*scale.format)) {
      ReadRow(*scale.format, bytes, values);
    } else {
      return Misfit(name, scale, "scales in F32, F16, BF16 or F8_E8M0");
    }
    return OkStatus();
  }

  Status PresentGroups(const std::string& name) {
    ASSIGN_OR_RETURN(GroupedCodes codes, ReadGroups(name));
    SourceTensor matrix = *Find(name);
    matrix.own_name = name;
    matrix.shape = {codes.rows, codes.columns};
    const GroupedTraits traits = TraitsOf(codes);
    if (!traits.whole_blocks) {
      matrix.format = RowFormat::kGroupsOther;
    } else if (codes.bits == 8 || !traits.zeros_fit) {
      matrix.format = RowFormat::kGroups8;
    } else {
      matrix.format = traits.has_zeros ? RowFormat::kGroups4Zero : RowFormat::kGroups4;
    }
    if (codes.bits == 8 && traits.has_zeros) matrix.format = RowFormat::kGroupsOther;
    matrix.type_name = RowFormatName(*matrix.format);
    matrix.coded = MakeGroupedMatrix(std::move(codes));
    for (const char* part : {"qweight", "qzeros", "scales", "g_idx"}) {
      const std::string sibling = Sibling(name, "qweight", part);
      if (const SourceTensor* found = Find(sibling); found != nullptr && sibling != name) {
        matrix.version += found->version;
      }
      tensors_.erase(sibling);
    }
    tensors_.insert_or_assign(Sibling(name, "qweight", "weight"), std::move(matrix));
    return OkStatus();
  }

  Result<GroupedCodes> ReadGroups(const std::string& name) const {
    const SourceTensor& words = *Find(name);
    if (words.type_name != "I32" || words.shape.size() != 2) {
      return Misfit(name, words, "a matrix of I32");
    }
    ASSIGN_OR_RETURN(const SourceTensor* scales, Part(name, "scales"));
    if (scales->shape.size() != 2 || scales->shape[0] == 0 || !scales->format ||
        !IsPlain(*scales->format)) {
      return Misfit(Sibling(name, "qweight", "scales"), *scales,
                    "[groups, outputs] in F16, BF16 or F32");
    }
    GroupedCodes codes;
    codes.codes = words.bytes;
    codes.scales = scales->bytes;
    codes.scale_dtype = KeptDType(*scales->format);
    codes.groups = scales->shape[0];
    codes.rows = scales->shape[1];
    if (quantisation_.method == Method::kGptq) {
      TRY(ReadGptq(name, words, &codes));
    } else {
      codes.order = WordOrder::kAwq;
      codes.columns = words.shape[0];
      if (codes.rows % 8 != 0 || words.shape[1] != codes.rows / 8) {
        return Misfit(name, words,
                      "[inputs, " + std::to_string(codes.rows) + " / 8]: AWQ of 4 bits");
      }
      TRY(GroupsInOrder(name, words, &codes));
    }
    TRY(ReadZeros(name, &codes));
    return codes;
  }

  Result<const SourceTensor*> Part(const std::string& name, const std::string& part) const {
    const std::string sibling = Sibling(name, "qweight", part);
    const SourceTensor* found = Find(sibling);
    if (found != nullptr) return found;
    return Error(ErrorCode::kInvalidData,
                 "The checkpoint has '" + name + "', but not '" + sibling + "'.");
  }

  // g_idx says which group each column is of, in any order; without it they follow each other.
  Status ReadGptq(const std::string& name, const SourceTensor& words, GroupedCodes* codes) const {
    const SourceTensor* order = Find(Sibling(name, "qweight", "g_idx"));
    const uint64_t word_rows = words.shape[0];
    codes->bits = quantisation_.bits;
    if (order == nullptr) {
      codes->columns = word_rows * (32 / codes->bits);
    } else if (order->type_name == "I32" && order->shape.size() == 1) {
      codes->columns = order->shape[0];
    } else {
      return Misfit(Sibling(name, "qweight", "g_idx"), *order, "a vector of I32");
    }
    if (word_rows * 32 != codes->columns * codes->bits || words.shape[1] != codes->rows) {
      return Misfit(name, words,
                    "[" + std::to_string(codes->columns) + " * " + std::to_string(codes->bits) +
                        " / 32, " + std::to_string(codes->rows) + "]");
    }
    codes->zero_offset = quantisation_.is_older_gptq ? 1 : 0;
    if (order == nullptr) return GroupsInOrder(name, words, codes);
    codes->group_of.resize(codes->columns);
    for (uint64_t i = 0; i < codes->columns; ++i) {
      codes->group_of[i] = LoadLe<uint32_t>(order->bytes.bytes().data() + i * 4);
      if (codes->group_of[i] < codes->groups) continue;
      return Error(ErrorCode::kInvalidData,
                   "Tensor '" + Sibling(name, "qweight", "g_idx") + "' of '" + order->file +
                       "' holds the group " + std::to_string(codes->group_of[i]) + "; there are " +
                       std::to_string(codes->groups) + ".");
    }
    return OkStatus();
  }

  static Status GroupsInOrder(const std::string& name, const SourceTensor& words,
                              GroupedCodes* codes) {
    if (codes->columns % codes->groups != 0) {
      return Misfit(
          name, words,
          "inputs that divide into " + std::to_string(codes->groups) + " groups of one size");
    }
    const uint64_t group_columns = codes->columns / codes->groups;
    codes->group_of.resize(codes->columns);
    for (uint64_t i = 0; i < codes->columns; ++i) {
      codes->group_of[i] = static_cast<uint32_t>(i / group_columns);
    }
    return OkStatus();
  }

  Status ReadZeros(const std::string& name, GroupedCodes* codes) const {
    const std::string zeros_name = Sibling(name, "qweight", "qzeros");
    const SourceTensor* zeros = Find(zeros_name);
    if (zeros == nullptr) return OkStatus();
    const uint64_t per_word = 32 / codes->bits;
    const std::vector<uint64_t> shape = {codes->groups, codes->rows / per_word};
    if (zeros->type_name != "I32" || codes->rows % per_word != 0 || zeros->shape != shape) {
      return Misfit(zeros_name, *zeros, ShapeText(shape) + " in I32");
    }
    codes->zeros = zeros->bytes;
    return OkStatus();
  }

  const Quantisation& quantisation_;
  TensorMap& tensors_;
};

// Of the model itself, or of the decoder that it wraps.
Result<const json::object*> FindConfig(const JsonReader& whole) {
  ASSIGN_OR_RETURN(const json::object* outer, whole.Object("quantization_config"));
  if (outer != nullptr) return outer;
  ASSIGN_OR_RETURN(const json::object* text, whole.Object("text_config"));
  if (text == nullptr) return text;
  return JsonReader(*text, "'text_config' in config.json").Object("quantization_config");
}

}  // namespace

Status PresentQuantised(std::string_view config_json, TensorMap* tensors) {
  ASSIGN_OR_RETURN(const json::value value, ParseJson(config_json, "config.json"));
  if (!value.is_object()) return OkStatus();  // ParseModelConfig says so
  ASSIGN_OR_RETURN(const json::object* config,
                   FindConfig(JsonReader(value.get_object(), "config.json")));
  if (config == nullptr) return OkStatus();
  ASSIGN_OR_RETURN(const Quantisation quantisation,
                   ReadQuantisation(JsonReader(*config, "'quantization_config' in config.json")));
  if (quantisation.method == Method::kNone) return OkStatus();
  return Presenter(quantisation, tensors).Run();
}

}  // namespace weft::convert
