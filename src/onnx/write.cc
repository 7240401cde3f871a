#include "onnx/write.h"

#include <fstream>

#include "base/random.h"
#include "onnx/onnx.pb.h"
#include "onnx/validate.h"
#include "onnx/weights.h"

namespace weft::onnx {
namespace {

namespace pb = weft::onnx_proto;

// Protobuf readers refuse longer messages.
constexpr uint64_t kMaxModelBytes = (uint64_t{1} << 31) - 1;

void ToProto(const ValueInfo& value, pb::ValueInfoProto& proto) {
  proto.set_name(value.name);
  if (!value.opaque_type.empty()) {
    proto.mutable_type()->ParsePartialFromString(value.opaque_type);
    return;
  }
  if (value.type == ElementType::kUndefined && !value.shape) return;
  pb::TypeProto::Tensor& type = *proto.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int32_t>(value.type));
  if (!value.shape) return;
  pb::TensorShapeProto& shape = *type.mutable_shape();
  for (const Dim& dim : *value.shape) {
    auto& dimension = *shape.add_dim();
    if (dim.known()) {
      dimension.set_dim_value(dim.value);
    } else if (!dim.symbol.empty()) {
      dimension.set_dim_param(dim.symbol);
    }
  }
}

// Everything but inline bytes.
void ToProto(const std::string& name, const Tensor& tensor, pb::TensorProto& proto) {
  if (!name.empty()) proto.set_name(name);
  proto.set_data_type(static_cast<int32_t>(tensor.type));
  for (const int64_t dim : tensor.dims) proto.add_dims(dim);
  for (const std::string& text : tensor.strings) proto.add_string_data(text);
  if (tensor.location.empty()) return;
  proto.set_data_location(pb::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, std::string value) {
    auto& entry = *proto.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  add("location", tensor.location);
  add("offset", std::to_string(tensor.offset));
  add("length", std::to_string(tensor.byte_count));
}

Status CheckWritable(const std::string& name, const Tensor& tensor) {
  if (!tensor.location.empty() || tensor.has_data()) return OkStatus();
  return Error(ErrorCode::kInvalidArgument,
               "The tensor " + Quoted(name) + " has neither bytes nor a location to refer to.");
}

Status ToProto(const Graph& graph, pb::GraphProto& proto, bool with_initializers);

Status ToProto(const Attribute& attribute, pb::AttributeProto& proto) {
  if (const auto* opaque = std::get_if<OpaqueAttribute>(&attribute.value)) {
    if (!proto.ParsePartialFromString(opaque->serialized)) {
      return Error(ErrorCode::kInvalidData,
                   "The attribute " + Quoted(attribute.name) + " is malformed.");
    }
    return OkStatus();
  }
  proto.set_name(attribute.name);
  if (const auto* f = std::get_if<float>(&attribute.value)) {
    proto.set_type(pb::AttributeProto::FLOAT);
    proto.set_f(*f);
  } else if (const auto* i = std::get_if<int64_t>(&attribute.value)) {
    proto.set_type(pb::AttributeProto::INT);
    proto.set_i(*i);
  } else if (const auto* s = std::get_if<std::string>(&attribute.value)) {
    proto.set_type(pb::AttributeProto::STRING);
    proto.set_s(*s);
  } else if (const auto* tensor = std::get_if<Tensor>(&attribute.value)) {
    TRY(CheckWritable(attribute.name, *tensor));
    proto.set_type(pb::AttributeProto::TENSOR);
    ToProto("", *tensor, *proto.mutable_t());
    if (tensor->location.empty() && tensor->strings.empty()) {
      proto.mutable_t()->set_raw_data(tensor->data.bytes().data(), tensor->data.byte_count());
    }
  } else if (const auto* graph = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
    proto.set_type(pb::AttributeProto::GRAPH);
    TRY(ToProto(**graph, *proto.mutable_g(), true));
  } else if (const auto* floats = std::get_if<std::vector<float>>(&attribute.value)) {
    proto.set_type(pb::AttributeProto::FLOATS);
    for (const float value : *floats) proto.add_floats(value);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute.value)) {
    proto.set_type(pb::AttributeProto::INTS);
    for (const int64_t value : *ints) proto.add_ints(value);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
    proto.set_type(pb::AttributeProto::STRINGS);
    for (const std::string& value : *texts) proto.add_strings(value);
  }
  return OkStatus();
}

Status ToProto(const Node& node, pb::NodeProto& proto) {
  proto.set_op_type(node.op_type);
  if (!node.domain.empty()) proto.set_domain(node.domain);
  if (!node.name.empty()) proto.set_name(node.name);
  if (!node.overload.empty()) proto.set_overload(node.overload);
  for (const std::string& input : node.inputs) proto.add_input(input);
  for (const std::string& output : node.outputs) proto.add_output(output);
  for (const Attribute& attribute : node.attributes) {
    TRY(ToProto(attribute, *proto.add_attribute()));
  }
  for (const auto& [key, value] : node.metadata) {
    auto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  return OkStatus();
}

Status ToProto(const Graph& graph, pb::GraphProto& proto, bool with_initializers) {
  proto.set_name(graph.name.empty() ? "graph" : graph.name);
  for (const Node& node : graph.nodes) TRY(ToProto(node, *proto.add_node()));
  for (const ValueInfo& input : graph.inputs) ToProto(input, *proto.add_input());
  for (const ValueInfo& output : graph.outputs) ToProto(output, *proto.add_output());
  for (const auto& [name, value] : graph.value_infos) {
    const bool repeated = graph.FindInput(name) != nullptr || graph.FindOutput(name) != nullptr;
    if (!repeated) ToProto(value, *proto.add_value_info());
  }
  if (!with_initializers) return OkStatus();
  for (const auto& [name, tensor] : graph.initializers) {
    TRY(CheckWritable(name, tensor));
    pb::TensorProto& initializer = *proto.add_initializer();
    ToProto(name, tensor, initializer);
    if (tensor.location.empty() && tensor.strings.empty()) {
      initializer.set_raw_data(tensor.data.bytes().data(), tensor.data.byte_count());
    }
  }
  return OkStatus();
}

void HeaderToProto(const Model& model, pb::ModelProto& proto) {
  proto.set_ir_version(model.ir_version);
  if (!model.producer_name.empty()) proto.set_producer_name(model.producer_name);
  if (!model.producer_version.empty()) proto.set_producer_version(model.producer_version);
  for (const auto& [domain, version] : model.opset_imports) {
    auto& opset = *proto.add_opset_import();
    opset.set_domain(domain);
    opset.set_version(version);
  }
  for (const auto& [key, value] : model.metadata) {
    auto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  for (const std::string& function : model.functions) {
    proto.add_functions()->ParsePartialFromString(function);
  }
}

void AppendVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(static_cast<uint8_t>(value) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

// Key of a length-delimited field, then the length.
std::string BytesHeader(uint32_t field_number, uint64_t byte_count) {
  std::string out;
  AppendVarint(out, (uint64_t{field_number} << 3) | 2);
  AppendVarint(out, byte_count);
  return out;
}

constexpr uint32_t kModelGraphField = 7;
constexpr uint32_t kGraphInitializerField = 5;
constexpr uint32_t kTensorRawDataField = 9;

// One initializer as it goes into the GraphProto: everything before its inline bytes, then those.
struct StreamedTensor {
  std::string head;
  const Tensor* inline_bytes = nullptr;
};

struct StreamedModel {
  std::string head;  // up to and including the graph without its initializers
  std::vector<StreamedTensor> tensors;
};

Result<StreamedModel> Prepare(const Model& model) {
  pb::ModelProto header;
  HeaderToProto(model, header);
  pb::GraphProto graph;
  TRY(ToProto(model.graph, graph, false));
  const std::string graph_head = graph.SerializePartialAsString();
  StreamedModel streamed;
  uint64_t graph_bytes = graph_head.size();
  for (const auto& [name, tensor] : model.graph.initializers) {
    TRY(CheckWritable(name, tensor));
    pb::TensorProto proto;
    ToProto(name, tensor, proto);
    std::string body = proto.SerializePartialAsString();
    StreamedTensor out;
    uint64_t inline_bytes = 0;
    if (tensor.location.empty() && tensor.strings.empty()) {
      out.inline_bytes = &tensor;
      inline_bytes = tensor.byte_count;
      body += BytesHeader(kTensorRawDataField, inline_bytes);
    }
    out.head = BytesHeader(kGraphInitializerField, body.size() + inline_bytes) + body;
    graph_bytes += out.head.size() + inline_bytes;
    streamed.tensors.push_back(std::move(out));
  }
  streamed.head =
      header.SerializePartialAsString() + BytesHeader(kModelGraphField, graph_bytes) + graph_head;
  if (graph_bytes > kMaxModelBytes - header.ByteSizeLong() - 16) {
    return Error(ErrorCode::kUnsupported,
                 "The model would be a file of " + HumanBytes(graph_bytes) +
                     "; protobuf ends at 2 GiB, so its weights must be external data.");
  }
  return streamed;
}

// An output file that is renamed into place when everything went well.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path)
      : path_(std::move(path)),
        beside_(path_.string() + ".tmp-" + SecureRandomHex(4)),
        stream_(beside_, std::ios::binary | std::ios::trunc) {}
  ~OutputFile() {
    if (committed_) return;
    std::error_code ignored;
    std::filesystem::remove(beside_, ignored);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void Write(std::string_view text) {
    stream_.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  void Write(const Tensor& tensor) {
    VisitBytes(tensor, [this](ByteSpan bytes) { Write(AsText(bytes)); });
  }

  Status Commit() {
    stream_.close();
    std::error_code error;
    if (stream_) std::filesystem::rename(beside_, path_, error);
    if (!stream_ || error) {
      return Error(ErrorCode::kIo, "Cannot write '" + path_.string() + "'.");
    }
    committed_ = true;
    return OkStatus();
  }

 private:
  std::filesystem::path path_;
  std::filesystem::path beside_;
  std::ofstream stream_;
  bool committed_ = false;
};

}  // namespace

Result<std::string> SerializeModel(const Model& model) {
  ASSIGN_OR_RETURN(StreamedModel streamed, Prepare(model));
  std::string out = std::move(streamed.head);
  for (const StreamedTensor& tensor : streamed.tensors) {
    out += tensor.head;
    if (tensor.inline_bytes != nullptr) out += AsText(tensor.inline_bytes->data.bytes());
  }
  return out;
}

Status SaveModel(const Model& model, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const StreamedModel streamed, Prepare(model));
  OutputFile file(path);
  file.Write(streamed.head);
  for (const StreamedTensor& tensor : streamed.tensors) {
    file.Write(tensor.head);
    if (tensor.inline_bytes != nullptr) file.Write(*tensor.inline_bytes);
  }
  return file.Commit();
}

}  // namespace weft::onnx
