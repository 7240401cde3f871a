// A model's chat template, as those ask it who learn how the model writes.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>

#include "base/result.h"

namespace weft::chat {

// The model's template with `messages`, `tools` and `add_generation_prompt` and whatever else it is
// always given.
using RenderTemplate = std::function<Result<std::string>(boost::json::object variables)>;

}  // namespace weft::chat
