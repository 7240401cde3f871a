// A grammar says what an answer has to be that must call, or whose calls must fit their schemas.
// Names and arguments stand in the texts by which the model spells calls (chat/call_spelling.h).
//
//   "required": <think>...</think> <tool_call>\n{"name": "F", "arguments": {...}}\n</tool_call>
//   "auto" with strict tools: any text, and the same wherever a call begins
#pragma once

#include <memory>
#include <optional>

#include "api/openai_request.h"
#include "chat/call_spelling.h"
#include "chat/format.h"
#include "grammar/automaton.h"

namespace weft::api {

// Whether the request asks for anything of this kind.
bool HoldsCalls(const ChatRequest& request);

// `may_think`: thoughts may stand in front of a call that must come. Takes up to a second or two
// (grammar/grammar.h). Errors: 400 naming the tool whose schema cannot
// be followed, where it is strict, or the field that cannot be for this model. Schemas of other
// tools that cannot be followed leave their arguments open.
ApiResult<std::shared_ptr<const grammar::Automaton>> CompileCalls(
    const ChatRequest& request, const chat::Format& format,
    const std::optional<chat::CallSpelling>& spelling, bool may_think);

}  // namespace weft::api
