// "org/name:q4": which model of a registry, in which form. Everything that becomes a part of a path
// or of a URL (repositories, revisions, file names) is checked here first.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::registry {

struct ModelReference {
  std::string repository;         // "org/name"; a few old ones are only "name"
  std::string form;               // what follows ':', lower case; "" when not given
  std::string revision = "main";  // branch, tag or commit

  // "org--name-q4", with "@revision" when it is not main: the package's name in the library.
  std::string PackageName() const;
  // "org/name:q4", as people type it.
  std::string ToText() const;
};

// Errors: kInvalidArgument names the text and what was expected.
Result<ModelReference> ParseModelReference(std::string_view text, std::string_view revision = "");

// A file's name in a repository, '/' between folders: no absolute paths, no "..", no control
// characters. The error names it.
Status CheckFileName(std::string_view name);

bool IsCommitHash(std::string_view text);  // 40 lower-case hexadecimal digits

// Text from a registry for an error sentence: printable, at most 200 bytes.
std::string Printable(std::string_view text);

}  // namespace weft::registry
