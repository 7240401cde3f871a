// A string of a chat template at run time: bytes, and which of them are quoted from the
// conversation. Every operation of the template language keeps that. So the tokenizer knows in the
// end what the template wrote itself and what it only passed on.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/quoted_text.h"

namespace weft::jinja {

class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes) : bytes_(std::move(bytes)) {}
  Text(std::string bytes, bool quoted);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<TextRange>& quoted() const { return quoted_; }
  bool has_quoted() const { return !quoted_.empty(); }

  // Markup of Jinja: what `safe` and `escape` give.
  bool is_markup() const { return is_markup_; }
  void set_markup(bool is_markup) { is_markup_ = is_markup; }

  // Bytes [begin, end). REQUIRES: begin <= end <= size().
  Text Part(size_t begin, size_t end) const;
  void Append(std::string_view bytes) { bytes_ += bytes; }
  void Append(std::string_view bytes, bool quoted);
  void Append(const Text& other) { AppendPart(other, 0, other.size()); }
  void AppendPart(const Text& other, size_t begin, size_t end);
  void Reserve(size_t byte_count) { bytes_.reserve(byte_count); }
  QuotedText Take() && { return {std::move(bytes_), std::move(quoted_)}; }

 private:
  void AddQuoted(size_t begin, size_t end);

  std::string bytes_;
  std::vector<TextRange> quoted_;
  bool is_markup_ = false;
};

// `text` with `change` applied to what is quoted and what is not, each by itself. For changes that
// look at one character after another.
template <typename Change>
Text ChangedInParts(const Text& text, const Change& change) {
  if (!text.has_quoted()) return Text(change(std::string_view(text.bytes())));
  Text changed;
  const std::string_view bytes = text.bytes();
  size_t done = 0;
  for (const TextRange& range : text.quoted()) {
    changed.Append(change(bytes.substr(done, range.begin - done)));
    changed.Append(change(bytes.substr(range.begin, range.end - range.begin)), true);
    done = range.end;
  }
  changed.Append(change(bytes.substr(done)));
  return changed;
}

}  // namespace weft::jinja
