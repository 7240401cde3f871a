// The architectures that config.json may name, and what each of them does otherwise than Llama.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "convert/model/model_config.h"
#include "convert/source/json_reader.h"

namespace weft::convert {

struct Family {
  std::string_view model_type;
  std::string_view architecture;  // the one class name that is a causal language model
  // Sets what differs. Sizes, rotation and activation are read already.
  Status (*adjust)(const JsonReader&, ModelConfig*);
  std::string_view defaults = "{}";  // a JSON object: keys that config.json may leave out
  // Gives keys that only this family has the names and forms of the others', before `defaults`.
  Status (*rename)(boost::json::object* config) = nullptr;
};

// Models that look at pictures: config.json has the decoder as `text_config`, whose `model_type` is
// that of a family, and the decoder's tensors lie under "model.language_model.".
struct Wrapper {
  std::string_view model_type;
  std::string_view architecture;
  std::string_view defaults = "{}";  // of `text_config`
};

// Models that people look for and that weft does not convert, with what it lacks for them.
struct MissingFamily {
  std::string_view model_type;
  std::string_view lacks;
};

std::span<const MissingFamily> MissingFamilies();
std::span<const Family> Families();
std::span<const Wrapper> Wrappers();

}  // namespace weft::convert
