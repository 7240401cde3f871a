#include "onnx/parse.h"

#include <bit>

#include "onnx/validate.h"

namespace weft::onnx {
namespace {

// Graphs inside graphs (If, Loop); real decoders have none or one level.
constexpr int kMaxGraphDepth = 8;

Error Invalid(std::string sentence) {
  return Error(ErrorCode::kInvalidData, std::move(sentence));
}

std::string Text(const WireField& field) {
  return std::string(AsText(field.bytes));
}

float AsFloat(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

// AttributeProto.AttributeType.
enum AttributeType : uint64_t {
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
};

class Parser {
 public:
  explicit Parser(const ParseSource& source) : source_(source) {}

  Result<Model> ParseModelMessage(ByteSpan message);

 private:
  Result<Graph> ParseGraph(ByteSpan message, int depth);
  Status AddToGraph(Graph& graph, const WireField& field, int depth);
  Result<Node> ParseNode(ByteSpan message, int depth);
  Result<Attribute> ParseAttribute(ByteSpan message, int depth);
  Result<Attribute> AttributeByType(Attribute attribute, uint64_t type, ByteSpan message,
                                    int depth);
  Status AddToAttribute(const WireField& field, int depth, Attribute::Value& value);
  Result<ValueInfo> ParseValueInfo(ByteSpan message);

  const ParseSource& source_;
};

Result<std::pair<std::string, std::string>> ParsePair(ByteSpan message) {
  std::pair<std::string, std::string> entry;
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->number == 1) entry.first = Text(*field);
    if (field->number == 2) entry.second = Text(*field);
  }
  if (!reader.ok()) return Invalid("A metadata entry is malformed.");
  return entry;
}

Result<Dim> ParseDim(ByteSpan message) {
  Dim dim;
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->number == 1 && field->type == WireType::kVarint) {
      dim = Dim::Of(static_cast<int64_t>(field->varint));
      // Some exporters write -1 for "any"; nothing else below zero has a meaning.
      if (dim.value < -1) {
        return Invalid("A declared dimension is " + std::to_string(dim.value) + ".");
      }
    }
    if (field->number == 2) dim = Dim::Of(Text(*field));
  }
  if (!reader.ok()) return Invalid("A declared dimension is malformed.");
  return dim;
}

Result<std::vector<Dim>> ParseShape(ByteSpan message) {
  std::vector<Dim> shape;
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->number != 1) continue;
    ASSIGN_OR_RETURN(Dim dim, ParseDim(field->bytes));
    shape.push_back(std::move(dim));
  }
  if (!reader.ok()) return Invalid("A declared shape is malformed.");
  return shape;
}

Status ParseTensorType(ByteSpan message, ValueInfo& value) {
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->number == 1) {
      if (field->varint > static_cast<uint64_t>(ElementType::kInt2)) {
        return Invalid("The declared element type " + std::to_string(field->varint) +
                       " is unknown; ONNX defines 1 to 26.");
      }
      value.type = static_cast<ElementType>(field->varint);
    }
    if (field->number == 2) {
      ASSIGN_OR_RETURN(value.shape, ParseShape(field->bytes));
    }
  }
  if (!reader.ok()) return Invalid("A declared type is malformed.");
  return OkStatus();
}

Status ParseType(ByteSpan message, ValueInfo& value) {
  WireReader reader(message);
  bool is_tensor = false;
  while (const auto field = reader.Next()) {
    if (field->number != 1 || field->type != WireType::kBytes) continue;
    is_tensor = true;
    TRY(ParseTensorType(field->bytes, value));
  }
  if (!reader.ok()) return Invalid("A declared type is malformed.");
  if (!is_tensor) value.opaque_type = std::string(AsText(message));
  return OkStatus();
}

Result<ValueInfo> Parser::ParseValueInfo(ByteSpan message) {
  ValueInfo value;
  std::optional<ByteSpan> type;
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->number == 1) value.name = Text(*field);
    if (field->number == 2) type = field->bytes;
  }
  if (!reader.ok()) return Invalid("A value declaration is malformed.");
  if (type) TRY(ParseType(*type, value).Context("While reading the type of " + Quoted(value.name)));
  return value;
}

bool AppendFloats(const WireField& field, std::vector<float>& values) {
  if (field.type == WireType::kFixed32) {
    values.push_back(AsFloat(field.varint));
    return true;
  }
  if (field.type != WireType::kBytes || field.bytes.size() % 4 != 0) return false;
  for (size_t i = 0; i < field.bytes.size(); i += 4) {
    values.push_back(LoadLe<float>(field.bytes.data() + i));
  }
  return true;
}

// Writers older than IR 3 leave the type out; then the field that is present tells.
uint64_t TypeOfField(uint32_t field_number) {
  switch (field_number) {
    case 2:
      return kFloat;
    case 3:
      return kInt;
    case 4:
      return kString;
    case 5:
      return kTensor;
    case 6:
      return kGraph;
    case 7:
      return kFloats;
    case 8:
      return kInts;
    case 9:
      return kStrings;
    default:
      return 0;
  }
}

Result<Attribute> Parser::ParseAttribute(ByteSpan message, int depth) {
  Attribute attribute;
  uint64_t type = 0;
  uint64_t guessed = 0;
  bool is_reference = false;
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->number == 1) attribute.name = Text(*field);
    if (field->number == 20) type = field->varint;
    if (field->number == 21) is_reference = !field->bytes.empty();
    if (const uint64_t guess = TypeOfField(field->number)) guessed = guess;
  }
  if (!reader.ok()) return Invalid("An attribute is malformed.");
  if (is_reference) {
    return Invalid("The attribute " + Quoted(attribute.name) +
                   " refers to a function's attribute outside a function.");
  }
  std::string context = "While reading the attribute " + Quoted(attribute.name);
  return AttributeByType(std::move(attribute), type == 0 ? guessed : type, message, depth)
      .Context(std::move(context));
}

// Reads one field into the attribute's value, which already has the alternative that the type asks
// for.
Status Parser::AddToAttribute(const WireField& field, int depth, Attribute::Value& value) {
  const bool is_bytes = field.type == WireType::kBytes;
  bool well_formed = true;
  if (auto* f = std::get_if<float>(&value)) {
    *f = AsFloat(field.varint);
  } else if (auto* i = std::get_if<int64_t>(&value)) {
    *i = static_cast<int64_t>(field.varint);
  } else if (auto* s = std::get_if<std::string>(&value)) {
    *s = Text(field);
  } else if (auto* tensor = std::get_if<Tensor>(&value); tensor != nullptr && is_bytes) {
    ASSIGN_OR_RETURN(NamedTensor named, ParseTensor(source_, field.bytes));
    *tensor = std::move(named.tensor);
  } else if (auto* graph = std::get_if<std::shared_ptr<Graph>>(&value);
             graph != nullptr && is_bytes) {
    ASSIGN_OR_RETURN(Graph parsed, ParseGraph(field.bytes, depth + 1));
    *graph = std::make_shared<Graph>(std::move(parsed));
  } else if (auto* floats = std::get_if<std::vector<float>>(&value)) {
    well_formed = AppendFloats(field, *floats);
  } else if (auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    well_formed = AppendVarints(field, *ints);
  } else if (auto* strings = std::get_if<std::vector<std::string>>(&value)) {
    strings->push_back(Text(field));
  }
  if (!well_formed) return Invalid("Its value is malformed.");
  return OkStatus();
}

// An empty value of the alternative that AttributeProto's `type` stands for; nullopt for types that
// are carried along.
std::optional<Attribute::Value> EmptyValue(uint64_t type) {
  switch (type) {
    case kFloat:
      return 0.f;
    case kInt:
      return int64_t{0};
    case kString:
      return std::string();
    case kTensor:
      return Tensor();
    case kGraph:
      return std::shared_ptr<Graph>();
    case kFloats:
      return std::vector<float>();
    case kInts:
      return std::vector<int64_t>();
    case kStrings:
      return std::vector<std::string>();
    default:
      return std::nullopt;
  }
}

Result<Attribute> Parser::AttributeByType(Attribute attribute, uint64_t type, ByteSpan message,
                                          int depth) {
  std::optional<Attribute::Value> value = EmptyValue(type);
  if (!value) {
    attribute.value = OpaqueAttribute{std::string(AsText(message))};
    return attribute;
  }
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (TypeOfField(field->number) != type) continue;
    TRY(AddToAttribute(*field, depth, *value));
  }
  if (!reader.ok()) return Invalid("Its value is malformed.");
  const auto* tensor = std::get_if<Tensor>(&*value);
  if (tensor != nullptr && tensor->type == ElementType::kUndefined) {
    return Invalid("It is a tensor attribute without a tensor.");
  }
  const auto* graph = std::get_if<std::shared_ptr<Graph>>(&*value);
  if (graph != nullptr && *graph == nullptr) {
    return Invalid("It is a graph attribute without a graph.");
  }
  attribute.value = *std::move(value);
  return attribute;
}

Result<Node> Parser::ParseNode(ByteSpan message, int depth) {
  Node node;
  std::vector<ByteSpan> attributes;
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->type != WireType::kBytes) continue;
    switch (field->number) {
      case 1:
        node.inputs.push_back(Text(*field));
        break;
      case 2:
        node.outputs.push_back(Text(*field));
        break;
      case 3:
        node.name = Text(*field);
        break;
      case 4:
        node.op_type = Text(*field);
        break;
      case 5:
        attributes.push_back(field->bytes);
        break;
      case 7:
        node.domain = Text(*field);
        break;
      case 8:
        node.overload = Text(*field);
        break;
      case 9: {
        ASSIGN_OR_RETURN(auto entry, ParsePair(field->bytes));
        node.metadata.push_back(std::move(entry));
        break;
      }
      default:
        break;
    }
  }
  if (!reader.ok()) return Invalid("The " + node.Describe() + " is malformed.");
  if (node.op_type.empty()) return Invalid("The " + node.Describe() + " has no op type.");
  if (node.domain == "ai.onnx") node.domain.clear();
  for (const ByteSpan bytes : attributes) {
    auto attribute = ParseAttribute(bytes, depth);
    if (!attribute.ok()) {
      return std::move(attribute).error().Context("While reading " + node.Describe());
    }
    if (node.Find(attribute->name) != nullptr) {
      return Invalid("The " + node.Describe() + " has the attribute " + Quoted(attribute->name) +
                     " twice.");
    }
    node.attributes.push_back(std::move(attribute).value());
  }
  return node;
}

Status Parser::AddToGraph(Graph& graph, const WireField& field, int depth) {
  switch (field.number) {
    case 1: {
      ASSIGN_OR_RETURN(Node node, ParseNode(field.bytes, depth));
      graph.nodes.push_back(std::move(node));
      break;
    }
    case 2:
      graph.name = Text(field);
      break;
    case 5: {
      ASSIGN_OR_RETURN(NamedTensor named, ParseTensor(source_, field.bytes));
      if (named.name.empty()) return Invalid("An initializer has an empty name.");
      const auto [it, inserted] = graph.initializers.emplace(named.name, std::move(named.tensor));
      if (!inserted) {
        return Invalid("The initializer " + Quoted(named.name) + " is defined twice.");
      }
      break;
    }
    case 11:
    case 12:
    case 13: {
      ASSIGN_OR_RETURN(ValueInfo value, ParseValueInfo(field.bytes));
      if (field.number == 11) {
        graph.inputs.push_back(std::move(value));
      } else if (field.number == 12) {
        graph.outputs.push_back(std::move(value));
      } else {
        std::string key = value.name;
        graph.value_infos.insert_or_assign(std::move(key), std::move(value));
      }
      break;
    }
    case 15:
      return Error(ErrorCode::kUnsupported, "The graph has sparse initializers.");
    default:
      break;
  }
  return OkStatus();
}

Result<Graph> Parser::ParseGraph(ByteSpan message, int depth) {
  if (depth > kMaxGraphDepth) {
    return Invalid("Graphs are nested deeper than " + std::to_string(kMaxGraphDepth) + " levels.");
  }
  Graph graph;
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->type != WireType::kBytes) continue;
    TRY(AddToGraph(graph, *field, depth));
  }
  if (!reader.ok()) return Invalid("The graph is cut off or malformed.");
  // Files of IR versions below 4 list every initializer among the inputs.
  std::erase_if(graph.inputs,
                [&](const ValueInfo& input) { return graph.initializers.contains(input.name); });
  return graph;
}

Result<Model> Parser::ParseModelMessage(ByteSpan message) {
  Model model;
  model.ir_version = 0;
  std::optional<ByteSpan> graph;
  WireReader reader(message);
  while (const auto field = reader.Next()) {
    switch (field->number) {
      case 1:
        model.ir_version = static_cast<int64_t>(field->varint);
        break;
      case 2:
        model.producer_name = Text(*field);
        break;
      case 3:
        model.producer_version = Text(*field);
        break;
      case 7:
        if (graph) return Invalid("The file holds two graphs.");
        graph = field->bytes;
        break;
      case 8: {
        std::string domain;
        int64_t version = 0;
        WireReader opset(field->bytes);
        while (const auto part = opset.Next()) {
          if (part->number == 1) domain = Text(*part);
          if (part->number == 2) version = static_cast<int64_t>(part->varint);
        }
        if (!opset.ok()) return Invalid("An operator set import is malformed.");
        if (domain == "ai.onnx") domain.clear();
        model.opset_imports[domain] = version;
        break;
      }
      case 14: {
        ASSIGN_OR_RETURN(auto entry, ParsePair(field->bytes));
        model.metadata.push_back(std::move(entry));
        break;
      }
      case 25:
        model.functions.push_back(Text(*field));
        break;
      default:
        break;
    }
  }
  if (!reader.ok()) return Invalid("It is cut off, or it is not an ONNX model.");
  if (!graph || model.ir_version < 1) {
    return Invalid("It is not an ONNX model: there is no graph or no IR version.");
  }
  ASSIGN_OR_RETURN(model.graph, ParseGraph(*graph, 0));
  return model;
}

}  // namespace

Result<Model> ParseModel(const ParseSource& source) {
  return Parser(source).ParseModelMessage(source.bytes.bytes());
}

}  // namespace weft::onnx
