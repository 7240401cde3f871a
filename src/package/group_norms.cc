#include "package/group_norms.h"

#include <boost/json.hpp>
#include <cmath>

namespace weft::package {

namespace json = boost::json;

std::string GroupNormsJson(const GroupNorms& norms) {
  json::array layers;
  for (const std::vector<float>& layer : norms) {
    json::array groups;
    for (const float norm : layer) groups.emplace_back(norm);
    layers.push_back(std::move(groups));
  }
  return json::serialize(json::object{{"norms", std::move(layers)}});
}

Result<GroupNorms> ParseGroupNorms(std::string_view text) {
  const Error refused(ErrorCode::kInvalidData,
                      std::string(kGroupNormsFile) +
                          " is none: expected {\"norms\": [[norm, ...], ...]} with finite norms.");
  boost::system::error_code error;
  const json::value parsed = json::parse({text.data(), text.size()}, error);
  if (error || !parsed.is_object()) return refused;
  const json::value* layers = parsed.get_object().if_contains("norms");
  if (layers == nullptr || !layers->is_array()) return refused;
  GroupNorms norms;
  for (const json::value& layer : layers->get_array()) {
    if (!layer.is_array()) return refused;
    std::vector<float>& groups = norms.emplace_back();
    for (const json::value& norm : layer.get_array()) {
      if (!norm.is_number()) return refused;
      groups.push_back(norm.to_number<float>(error));
      if (error || !std::isfinite(groups.back()) || groups.back() < 0) return refused;
    }
  }
  return norms;
}

}  // namespace weft::package
