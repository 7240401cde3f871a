// Forms of calls that are no JSON (calls.h chooses among them): tags, pairs, elements, Python's and
// Gemma's. What a value is, the tools' schemas say where the form does not.
#pragma once

#include <string>
#include <string_view>

#include "chat/call.h"
#include "chat/literal.h"
#include "chat/tools.h"

namespace weft::chat {

std::string_view TrimmedText(std::string_view text);
// An object of JSON, which may stand in a fence of Markdown.
bool ReadFencedObject(LiteralReader& reader, std::string* object);

// <function=F><parameter=K>V</parameter></function>, <invoke name="F"><parameter name="K">V..., the
// same with DeepSeek's prefix, and <function=F>{...}</function>. With `ends_with_block` the last
// closing tag is missing.
BlockCalls ReadTagged(std::string_view block, bool ends_with_block, const Tools& tools);
// F<arg_key>K</arg_key><arg_value>V</arg_value>, or F and an object of JSON.
BlockCalls ReadPairs(std::string_view block, const Tools& tools);
// `prefix` stands in front of each tag: <invoke name="F"><K>V</K></invoke>, values nested.
BlockCalls ReadElements(std::string_view block, std::string_view prefix, const Tools& tools);
// [F(K=V, ...), ...]
BlockCalls ReadPython(std::string_view block);
// call:F{K:<|"|>V<|"|>,...}
BlockCalls ReadGemma(std::string_view block);

}  // namespace weft::chat
