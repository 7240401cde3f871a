#include "registry/model_reference.h"

#include <algorithm>

namespace weft::registry {
namespace {

constexpr size_t kMaxPartBytes = 96;
constexpr size_t kMaxFileNameBytes = 512;

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsWord(std::string_view text, size_t most = kMaxPartBytes) {
  const auto allowed = [](char c) {
    return IsLetterOrDigit(c) || c == '-' || c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), allowed) &&
         text.front() != '.' && text.front() != '-' && text.find("..") == std::string_view::npos;
}

// The registry itself forbids "--" in names, so that "org--name" has one meaning in the cache.
bool IsRepository(std::string_view text) {
  const size_t slash = text.find('/');
  const bool parts = slash == std::string_view::npos
                         ? IsWord(text)
                         : IsWord(text.substr(0, slash)) && IsWord(text.substr(slash + 1));
  return parts && text.find("--") == std::string_view::npos;
}

bool IsRevision(std::string_view text) {
  while (true) {
    const size_t slash = text.find('/');
    if (!IsWord(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

std::string Replaced(std::string text, char from, std::string_view to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, 1, to);
  return text;
}

}  // namespace

std::string ModelReference::PackageName() const {
  std::string name = Replaced(repository, '/', "--");
  if (!form.empty()) name += "-" + form;
  if (revision != "main") name += "@" + Replaced(revision, '/', "--");
  return name;
}

std::string ModelReference::ToText() const {
  return form.empty() ? repository : repository + ":" + form;
}

Result<ModelReference> ParseModelReference(std::string_view text, std::string_view revision) {
  ModelReference reference;
  const size_t colon = text.find(':');
  reference.repository = std::string(text.substr(0, colon));
  const auto refuse = [&](const std::string& what) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + Printable(text) + "' names no model of a registry: " + what +
                     ". Expected something like Qwen/Qwen3-0.6B or Qwen/Qwen3-0.6B:q4.");
  };
  if (!IsRepository(reference.repository)) {
    return refuse("'" + Printable(reference.repository) + "' is not ORGANISATION/NAME");
  }
  if (colon != std::string_view::npos) {
    reference.form = std::string(text.substr(colon + 1));
    for (char& c : reference.form) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    if (!IsWord(reference.form, 64)) {
      return refuse("after ':' comes q4, q8, f16, f32 or a name like Q4_K_M");
    }
  }
  if (!revision.empty()) reference.revision = std::string(revision);
  if (!IsRevision(reference.revision) || reference.revision.size() > 200) {
    return Error(ErrorCode::kInvalidArgument, "'" + Printable(reference.revision) +
                                                  "' is no revision: expected a branch, a tag or "
                                                  "a commit, like main or refs/pr/1.");
  }
  return reference;
}

Status CheckFileName(std::string_view name) {
  const auto refuse = [&](const char* why) {
    return Error(ErrorCode::kPermissionDenied,
                 "The registry lists a file '" + Printable(name) + "', which " + why +
                     "; nothing was downloaded, because such a name could write outside the "
                     "cache.");
  };
  if (name.empty() || name.size() > kMaxFileNameBytes) {
    return refuse("is no name (1 to 512 bytes)");
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 32 || c == 127 || c == '\\') {
      return refuse("holds a backslash or a control character");
    }
  }
  if (name.front() == '/') return refuse("is an absolute path");
  for (std::string_view rest = name;;) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return refuse("leads out of its folder");
    if (slash == std::string_view::npos) return OkStatus();
    rest.remove_prefix(slash + 1);
  }
}

bool IsCommitHash(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string Printable(std::string_view text) {
  std::string printable(text.substr(0, 200));
  for (char& c : printable) {
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  }
  return printable + (text.size() > 200 ? "..." : "");
}

}  // namespace weft::registry
