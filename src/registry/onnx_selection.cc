#include "registry/onnx_selection.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "registry/model_reference.h"

namespace weft::registry {
namespace {

constexpr size_t kMaxListed = 40;

std::string Lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

std::string FolderOf(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash + 1);
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Names of one form: the exporters', and what people type.
std::string Canonical(const std::string& form) {
  if (form == "fp32") return "f32";
  if (form == "fp16") return "f16";
  if (form == "quantized") return "q8";  // as transformers.js calls it
  return form;
}

// What follows the name of the graph: "model_q4.onnx" -> "q4", "model.onnx" -> "f32".
// "" for files that are no whole decoder.
std::string FormOf(const std::string& name) {
  std::string stem = Lower(name.substr(FolderOf(name).size()));
  stem.resize(stem.size() - std::string_view(".onnx").size());
  for (const std::string_view graph : {"decoder_model_merged", "model"}) {
    if (!stem.starts_with(graph)) continue;
    const std::string_view rest = std::string_view(stem).substr(graph.size());
    if (rest.empty()) return "f32";
    if (rest.size() > 1 && (rest[0] == '_' || rest[0] == '-' || rest[0] == '.')) {
      return Canonical(std::string(rest.substr(1)));
    }
  }
  return "";
}

// Weights that lie beside a graph are called after it: "model_q4.onnx_data",
// "model_q4.onnx_data_1", "model_q4.onnx.data", "model_q4.data".
bool IsDataOf(const std::string& name, const std::string& model) {
  const std::string stem = model.substr(0, model.size() - std::string_view(".onnx").size());
  if (name == stem + ".data" || name == stem + ".weights") return true;
  return name.starts_with(model + "_data") || name.starts_with(model + ".data");
}

// The builder's folders have a configuration each; else it is at the root.
std::string TextFolder(const std::vector<std::string>& names, const std::string& folder) {
  const bool has_own =
      Has(names, folder + "genai_config.json") || Has(names, folder + "config.json");
  return has_own ? folder : "";
}

std::string Listed(const std::vector<OnnxModel>& models) {
  std::string text;
  for (size_t i = 0; i < models.size() && i < kMaxListed; ++i) {
    text += "\n    " + models[i].file + " (:" + models[i].form + ")";
  }
  if (models.size() > kMaxListed) {
    text += "\n    and " + std::to_string(models.size() - kMaxListed) + " more";
  }
  return text;
}

}  // namespace

std::vector<OnnxModel> OnnxModels(const std::vector<std::string>& names) {
  std::vector<OnnxModel> models;
  for (const std::string& name : names) {
    if (!name.ends_with(".onnx")) continue;
    OnnxModel model{name, FormOf(name), {name}, TextFolder(names, FolderOf(name))};
    if (model.form.empty()) continue;
    for (const std::string& other : names) {
      if (IsDataOf(other, name)) model.files.push_back(other);
    }
    models.push_back(std::move(model));
  }
  // A folder for each form: cpu-int4-rtn-block-32/model.onnx is called after its folder.
  std::vector<std::string> forms;
  forms.reserve(models.size());
  for (const OnnxModel& model : models) forms.push_back(model.form);
  for (OnnxModel& model : models) {
    const std::string folder = FolderOf(model.file);
    if (std::count(forms.begin(), forms.end(), model.form) == 1 || folder.empty()) continue;
    const std::string path = folder.substr(0, folder.size() - 1);
    if (path != "onnx") model.form = Lower(path.substr(FolderOf(path).size()));
  }
  return models;
}

Result<OnnxModel> ChooseOnnxModel(const std::vector<OnnxModel>& models, const std::string& form,
                                  const std::string& repository) {
  const auto matching = [&](const auto& matches) {
    std::vector<const OnnxModel*> found;
    for (const OnnxModel& model : models) {
      if (matches(model)) found.push_back(&model);
    }
    return found;
  };
  const auto named = [&](const std::string& wanted) {
    return matching([&](const OnnxModel& model) { return model.form == wanted; });
  };
  std::vector<const OnnxModel*> found;
  if (!form.empty()) {
    found = named(Canonical(form));
    // Four bits with scales of 16 bits rather than 32 are as much what was asked for.
    if (found.empty() && form == "q4") found = named("q4f16");
    if (found.empty()) {
      found = matching([&](const OnnxModel& model) {
        return Lower(FolderOf(model.file)).find(form) != std::string::npos;
      });
    }
  } else {
    constexpr std::array<const char*, 4> kBest = {"f16", "f32", "q4", "q4f16"};
    for (size_t i = 0; i < kBest.size() && found.empty(); ++i) found = named(kBest[i]);
    if (found.empty() && models.size() == 1) found.push_back(&models.front());
  }
  if (found.size() == 1) return *found.front();
  const std::string what = form.empty() ? "has several ONNX models; say which, like " + repository +
                                              ":" + models.front().form
                           : found.empty() ? "has no ONNX model ':" + Printable(form) + "'"
                                           : "has several ONNX models ':" + Printable(form) + "'";
  const bool is_unknown = found.empty() && !form.empty();
  return Error(is_unknown ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
               "'" + repository + "' " + what + ". There is:" + Listed(models));
}

}  // namespace weft::registry
