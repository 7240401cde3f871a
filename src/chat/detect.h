// Which way of writing calls and thoughts a model has: its chat template knows. A conversation with
// a call is rendered, and what the template makes of the call is looked through for the marks of
// the families; a template that shows no calls names them in its source, when it tells the model
// how to call. What no family writes so is taken from the rendered call itself.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/format.h"

namespace weft::chat {

// The model's template with `messages`, `tools` and `add_generation_prompt` and whatever else it is
// always given.
using RenderTemplate = std::function<Result<std::string>(boost::json::object variables)>;

Format DetectFormat(std::string_view template_source, const RenderTemplate& render);

}  // namespace weft::chat
