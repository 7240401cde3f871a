#include "onnx/load.h"

#include "base/file.h"
#include "base/source_file.h"
#include "onnx/external_files.h"
#include "onnx/parse.h"
#include "onnx/validate.h"

namespace weft::onnx {
namespace {

Status Resolve(ExternalFiles& files, const std::string& name, Tensor& tensor) {
  if (tensor.location.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const Slice file,
                   files.Open(tensor.location).Context("While reading the tensor " + Quoted(name)));
  // The parser made sure that the sum does not overflow.
  const uint64_t end = tensor.offset + tensor.byte_count;
  if (end > file.byte_count()) {
    return Error(ErrorCode::kInvalidData,
                 "The tensor " + Quoted(name) + " lies at bytes " + std::to_string(tensor.offset) +
                     " to " + std::to_string(end) + " of " + Quoted(tensor.location) +
                     ", which has only " + std::to_string(file.byte_count()) + ".");
  }
  tensor.data = file.Sub(tensor.offset, tensor.byte_count);
  tensor.mapped = tensor.byte_count > 0;
  tensor.location.clear();
  tensor.offset = 0;
  return OkStatus();
}

Status ResolveAll(ExternalFiles& files, Graph& graph) {
  for (auto& [name, tensor] : graph.initializers) TRY(Resolve(files, name, tensor));
  for (Node& node : graph.nodes) {
    for (Attribute& attribute : node.attributes) {
      if (auto* tensor = std::get_if<Tensor>(&attribute.value)) {
        TRY(Resolve(files, node.name, *tensor));
      } else if (auto* subgraph = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
        TRY(ResolveAll(files, **subgraph));
      }
    }
  }
  return OkStatus();
}

Result<Model> ParseAndValidate(const ParseSource& source) {
  ASSIGN_OR_RETURN(Model model, ParseModel(source));
  TRY(ValidateAndSort(model.graph));
  return model;
}

}  // namespace

Result<Model> LoadModel(const std::filesystem::path& path, const LoadOptions& options) {
  const std::string context = "While loading '" + path.string() + "'";
  ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  auto model = ParseAndValidate({AsSlice(file), true});
  if (!model.ok()) return std::move(model).Context(context);
  if (options.version != nullptr) *options.version = FileVersion(path);
  if (options.resolve_external) {
    ExternalFiles files(path.parent_path(), options.allow_hard_links);
    TRY(ResolveAll(files, model->graph).Context(context));
    if (options.version != nullptr) *options.version += ' ' + files.Version();
  }
  return model;
}

Result<Model> LoadModelFromBytes(Slice bytes, std::string label) {
  return ParseAndValidate({std::move(bytes), false}).Context("While loading '" + label + "'");
}

}  // namespace weft::onnx
