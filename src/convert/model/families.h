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
};

std::span<const Family> Families();

}  // namespace weft::convert
