// Files of a checkpoint folder that may come from anywhere. Names are plain only. Symbolic links
// must stay in the folder or lead to the blob store of a Hugging Face cache
// (models--org--name/snapshots/<revision>/x -> ../../blobs/<hash>).
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/result.h"

namespace weft::convert {

// The path to open for `name`. kNotFound when there is no such file, kPermissionDenied when the
// name or a link leads out of the folder.
Result<std::filesystem::path> SourceFile(const std::filesystem::path& folder,
                                         const std::string& name);

// Contents by name.
using TextFiles = std::map<std::string, std::string>;

// Those of the files `names` that are in the folder. JSON (by the name's end) is parsed already
// here, so that a broken file is found while there is someone to read the message.
Result<TextFiles> ReadTexts(const std::filesystem::path& folder,
                            std::span<const char* const> names);

// Adds the named templates of additional_chat_templates/*.jinja, all in one chat_template.json: a
// package holds files by plain names.
Status AddNamedTemplates(const std::filesystem::path& folder, TextFiles* files);

}  // namespace weft::convert
