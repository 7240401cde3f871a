#include "text/jinja/text.h"

#include <algorithm>

namespace weft::jinja {

Text::Text(std::string bytes, bool quoted) : bytes_(std::move(bytes)) {
  if (quoted) AddQuoted(0, bytes_.size());
}

Text Text::Part(size_t begin, size_t end) const {
  Text part;
  part.AppendPart(*this, begin, end);
  part.is_markup_ = is_markup_;
  return part;
}

void Text::Append(std::string_view bytes, bool quoted) {
  const size_t begin = bytes_.size();
  bytes_ += bytes;
  if (quoted) AddQuoted(begin, bytes_.size());
}

void Text::AppendPart(const Text& other, size_t begin, size_t end) {
  const size_t at = bytes_.size();
  bytes_.append(other.bytes_, begin, end - begin);
  if (other.quoted_.empty()) return;
  auto range = std::ranges::upper_bound(other.quoted_, begin, {}, &TextRange::end);
  for (; range != other.quoted_.end() && range->begin < end; ++range) {
    AddQuoted(at + std::max(range->begin, begin) - begin, at + std::min(range->end, end) - begin);
  }
}

void Text::AddQuoted(size_t begin, size_t end) {
  if (begin == end) return;
  if (!quoted_.empty() && quoted_.back().end == begin) {
    quoted_.back().end = end;
  } else {
    quoted_.push_back({begin, end});
  }
}

}  // namespace weft::jinja
