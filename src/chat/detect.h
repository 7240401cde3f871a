// Which way of writing calls and thoughts a model has: its chat template knows. A conversation with
// a call is rendered. The marks of the families are looked for in the template's text of the call.
// A template that shows no calls names them in its source, when it tells the model how to call.
// What no family writes so is taken from the rendered call itself.
#pragma once

#include <string_view>

#include "chat/format.h"
#include "chat/render_template.h"

namespace weft::chat {

Format DetectFormat(std::string_view template_source, const RenderTemplate& render);

}  // namespace weft::chat
