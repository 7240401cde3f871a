#include "convert/package/package_files.h"

#include <algorithm>

#include "base/file.h"
#include "text/jinja/chat_template_files.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::convert {

Result<std::vector<std::string>> CheckTokenizer(const TextFiles& files, uint64_t vocabulary) {
  std::vector<std::string> warnings;
  const auto file = files.find("tokenizer.json");
  if (file == files.end()) {
    warnings.push_back(
        "no tokenizer.json: this package can be evaluated, not chatted with (AutoTokenizer's "
        "save_pretrained writes one).");
    return warnings;
  }
  ASSIGN_OR_RETURN(
      const Tokenizer tokenizer,
      Tokenizer::FromJson(AsBytes(file->second))
          .Context("While reading tokenizer.json; --no-tokenizer converts without it"));
  const auto id_count = static_cast<uint64_t>(std::max(0, tokenizer.vocab_count()));
  if (id_count > vocabulary) {
    warnings.push_back("tokenizer.json has ids up to " + std::to_string(id_count - 1) +
                       "; the model's vocabulary ends at " + std::to_string(vocabulary - 1) +
                       ": texts with the tokens beyond it cannot be run.");
  }
  const std::vector<std::string> notes = ChatTemplateNotes(files);
  warnings.insert(warnings.end(), notes.begin(), notes.end());
  return warnings;
}

Status WritePackageFiles(const std::filesystem::path& folder, package::Manifest manifest,
                         const TextFiles& files) {
  for (const auto& [name, text] : files) {
    manifest.files.emplace(name, package::Digest::Of(AsBytes(text)));
    TRY(WriteFileAtomically(folder / name, AsBytes(text)));
  }
  const std::string json = package::ToJson(manifest);
  // What we write must be what we read: a name that the manifest's rules refuse is found here.
  TRY(package::ParseManifest(AsBytes(json)));
  return WriteFileAtomically(folder / "weft.json", AsBytes(json));
}

}  // namespace weft::convert
