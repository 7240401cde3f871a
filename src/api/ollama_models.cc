#include "api/ollama_models.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>

#include "api/ollama_response.h"

namespace weft::api {
namespace json = boost::json;

namespace {

// A model that stays until the server ends: so Ollama writes "for ever".
constexpr const char* kForever = "2318-01-01T00:00:00Z";

json::object DetailsJson(const OllamaModel& model) {
  return {
      {"parent_model", ""},           {"format", "weft"},
      {"family", model.architecture}, {"families", json::array{json::string(model.architecture)}},
      {"parameter_size", ""},         {"quantization_level", model.quantisation}};
}

json::object ModelJson(const OllamaModel& model) {
  return {{"name", model.name},
          {"model", model.name},
          {"digest", model.digest},
          {"details", DetailsJson(model)}};
}

std::string ChangedAt(const OllamaModel& model) {
  return Rfc3339(model.changed_s * 1'000'000);
}

std::string ListOf(json::array models) {
  return json::serialize(json::object{{"models", std::move(models)}});
}

}  // namespace

std::string OllamaTagsJson(std::span<const OllamaModel> models) {
  json::array list;
  for (const OllamaModel& model : models) {
    json::object object = ModelJson(model);
    object["modified_at"] = ChangedAt(model);
    object["size"] = model.byte_count;
    list.push_back(std::move(object));
  }
  return ListOf(std::move(list));
}

std::string OllamaShowJson(const OllamaModel& model) {
  const std::string& family = model.architecture;
  return json::serialize(json::object{
      {"modelfile", "# " + model.name + " is a package of weft and has no Modelfile.\n"},
      {"parameters", ""},
      {"template", model.chat_template},
      {"system", ""},
      {"license", ""},
      {"details", DetailsJson(model)},
      {"model_info",
       {{"general.architecture", family},
        {"general.basename", model.name},
        {family + ".context_length", model.context_length},
        {family + ".block_count", model.layer_count},
        {family + ".embedding_length", model.hidden_columns}}},
      {"capabilities", json::value_from(model.capabilities)},
      {"modified_at", ChangedAt(model)}});
}

std::string OllamaPsJson(std::span<const OllamaHeld> models) {
  json::array list;
  for (const OllamaHeld& held : models) {
    if (held.held_bytes == 0) continue;
    json::object object = ModelJson(*held.model);
    object["size"] = held.held_bytes;
    object["size_vram"] = held.gpu_bytes;
    object["expires_at"] = held.ends_at_us ? Rfc3339(*held.ends_at_us) : kForever;
    object["context_length"] = held.model->context_length;
    list.push_back(std::move(object));
  }
  return ListOf(std::move(list));
}

}  // namespace weft::api
