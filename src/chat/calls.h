// The calls in a block of text, in any of the forms of format.h.
#pragma once

#include <string_view>

#include "chat/call.h"
#include "chat/format.h"
#include "chat/tools.h"

namespace weft::chat {

// `block` stands between the markers of `syntax`. What breaks off behind some calls is left unread.
BlockCalls ReadCalls(std::string_view block, const CallSyntax& syntax, const Tools& tools);

// One call as an object of JSON, {"name": F, "arguments": {...}} or with the names that others give
// these fields.
bool ReadJsonCall(std::string_view json, Call* call);

}  // namespace weft::chat
