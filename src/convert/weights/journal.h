// What an interrupted conversion finished: blobs by what they were made of, one line of JSON
// each, in the partial package. A blob is only taken over after its bytes were verified again.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convert/weights/stored_weight.h"
#include "package/manifest.h"

namespace weft::convert {

class Journal {
 public:
  struct Entry {
    package::Digest blob;
    std::vector<StoredWeight> weights;  // of one blob; shapes are not kept
    package::BlobInfo info;
  };

  // Reads what is there; lines that are torn or do not parse are left out. `folder` is the partial
  // package.
  explicit Journal(const std::filesystem::path& folder);

  // The entry of `key` if its blob is in `folder`/blobs with every chunk as recorded.
  std::optional<Entry> Find(const std::string& key) const;
  // Appends a line; a journal that cannot be written costs a resume, not the conversion.
  void Add(const std::string& key, const Entry& entry);
  // The finished package has none.
  void Remove();

 private:
  std::filesystem::path folder_;
  std::map<std::string, Entry> entries_;
  std::ofstream out_;
};

}  // namespace weft::convert
