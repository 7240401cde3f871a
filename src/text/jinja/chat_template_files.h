// The chat templates that a model's files bring, by name: "default", and others such as "tool_use".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft {

// From chat_template.jinja, else chat_template.json, else the chat_template of
// tokenizer_config.json, which may be one, a list or an object; and what additional_chat_templates/
// has, whose names hold the folder. Errors: kInvalidData naming the file.
Result<std::map<std::string, std::string>> ChatTemplateSources(
    const std::map<std::string, std::string>& files);

// What somebody who converts these files ought to know: that there is no template, that one cannot
// be read, or that one names what weft has not.
std::vector<std::string> ChatTemplateNotes(const std::map<std::string, std::string>& files);

}  // namespace weft
