#include "text/tokenizer/vocabulary.h"

#include <functional>

namespace weft {
namespace {

// Real vocabularies are dense but for a few reserved ids; a table by id must not outgrow the file.
constexpr int64_t kMaxHoles = 1 << 20;

}  // namespace

Result<Vocabulary> Vocabulary::Build(const std::vector<Entry>& entries) {
  const int64_t id_limit = static_cast<int64_t>(entries.size()) * 2 + kMaxHoles;
  size_t text_bytes = 0;
  int64_t highest = -1;
  for (const Entry& entry : entries) {
    if (entry.id < 0 || entry.id >= id_limit) {
      return Error(ErrorCode::kInvalidData, "Token \"" + std::string(entry.text.substr(0, 80)) +
                                                "\" has id " + std::to_string(entry.id) +
                                                ", but ids of this vocabulary must be 0 to " +
                                                std::to_string(id_limit - 1) + ".");
    }
    text_bytes += entry.text.size();
    highest = std::max(highest, entry.id);
  }
  if (text_bytes > UINT32_MAX) {
    return Error(ErrorCode::kInvalidData, "The vocabulary's texts have " +
                                              std::to_string(text_bytes) +
                                              " bytes; the limit is 4 GiB.");
  }
  Vocabulary vocabulary;
  vocabulary.texts_.reserve(text_bytes);
  vocabulary.places_.resize(static_cast<size_t>(highest + 1));
  size_t slot_count = 16;
  while (slot_count < entries.size() * 2) slot_count *= 2;
  vocabulary.slots_.assign(slot_count, -1);
  for (const Entry& entry : entries) {
    Place& place = vocabulary.places_[static_cast<size_t>(entry.id)];
    if (place.present) {
      return Error(ErrorCode::kInvalidData,
                   "Id " + std::to_string(entry.id) + " is given to two tokens, \"" +
                       std::string(vocabulary.Text(static_cast<int32_t>(entry.id))) + "\" and \"" +
                       std::string(entry.text) + "\".");
    }
    place.offset = static_cast<uint32_t>(vocabulary.texts_.size());
    place.byte_count = static_cast<uint32_t>(entry.text.size());
    place.present = true;
    vocabulary.texts_ += entry.text;
    const size_t slot = vocabulary.SlotOf(entry.text);
    // Of equal texts (padding tokens of some GGUF files) the first keeps the name.
    if (vocabulary.slots_[slot] < 0) vocabulary.slots_[slot] = static_cast<int32_t>(entry.id);
  }
  return vocabulary;
}

size_t Vocabulary::SlotOf(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>()(text) & mask;
  while (slots_[slot] >= 0 && Text(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slot;
}

std::optional<int32_t> Vocabulary::Find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const int32_t id = slots_[SlotOf(text)];
  if (id < 0) return std::nullopt;
  return id;
}

std::string_view Vocabulary::Text(int32_t id) const {
  if (!Has(id)) return {};
  const Place& place = places_[static_cast<size_t>(id)];
  return std::string_view(texts_).substr(place.offset, place.byte_count);
}

}  // namespace weft
