#include "text/tokenizer/added.h"

#include <algorithm>

#include "text/utf8.h"

namespace weft {
namespace {

bool WordCharBefore(std::string_view text, size_t at) {
  if (at == 0) return false;
  size_t begin = utf8::Previous(text, at);
  return utf8::IsWordChar(utf8::Next(text, begin));
}

bool WordCharAt(std::string_view text, size_t at) {
  return at < text.size() && utf8::IsWordChar(utf8::Next(text, at));
}

size_t SkipSpaceBefore(std::string_view text, size_t at, size_t lowest) {
  while (at > lowest) {
    const size_t begin = utf8::Previous(text, at);
    size_t after = begin;
    if (!utf8::IsWhiteSpace(utf8::Next(text, after))) break;
    at = begin;
  }
  return std::max(at, lowest);
}

size_t SkipSpaceAfter(std::string_view text, size_t at) {
  while (at < text.size()) {
    size_t after = at;
    if (!utf8::IsWhiteSpace(utf8::Next(text, after))) break;
    at = after;
  }
  return at;
}

}  // namespace

void AddedTokenMatcher::Add(std::string_view content, const AddedToken* token) {
  CHECK(!content.empty(), "an added token needs a text");
  starts_[static_cast<uint8_t>(content[0])] = true;
  uint32_t node = 0;
  for (const char c : content) {
    const auto [child, created] =
        nodes_[node].children.try_emplace(c, static_cast<uint32_t>(nodes_.size()));
    const uint32_t child_index = child->second;
    if (created) nodes_.emplace_back();
    node = child_index;
  }
  if (nodes_[node].token == nullptr) nodes_[node].token = token;
}

bool EndsTurnByName(std::string_view token) {
  static constexpr std::string_view kNames[] = {
      "<|eot_id|>",
      "<|im_end|>",
      "<|end|>",
      "<end_of_turn>",
      "<|end_of_turn|>",
      "<|END_OF_TURN_TOKEN|>",
      "<|endoftext|>",
      "<|end_of_text|>",
      "<|eom_id|>",
      "<|eot|>",
      "<|return|>",
      "<|call|>",
      "<|calls|>",
      "<|flush|>",
      "<|EOT|>",
      "<EOT>",
      "_<EOT>",
      "[EOT]",
      "[EOS]",
      "<eos>",
      "<turn|>",
      "<|tool_response>",
      "<end_of_utterance>",
      "[e~[",
      "<\uff5cend\u2581of\u2581sentence\uff5c>",
  };
  return std::ranges::find(kNames, token) != std::end(kNames);
}

bool AddedToken::is_control() const {
  static constexpr std::string_view kOthers[] = {"</s>",
                                                 "<|user|>",
                                                 "<|assistant|>",
                                                 "<|system|>",
                                                 "<|im_start|>",
                                                 "<|start_header_id|>",
                                                 "<start_of_turn>",
                                                 "<|turn>"};
  return special || EndsTurnByName(content) ||
         std::ranges::find(kOthers, content) != std::end(kOthers);
}

AddedTokenMatcher::Hit AddedTokenMatcher::Longest(std::string_view text, size_t at,
                                                  size_t control_limit) const {
  Hit longest{nullptr, at};
  uint32_t node = 0;
  while (at < text.size()) {
    const auto child = nodes_[node].children.find(text[at]);
    if (child == nodes_[node].children.end()) break;
    node = child->second;
    ++at;
    const AddedToken* token = nodes_[node].token;
    if (token != nullptr && (at <= control_limit || !token->is_control())) longest = {token, at};
  }
  return longest;
}

std::vector<AddedTokenMatcher::Section> AddedTokenMatcher::Split(
    std::string_view text, bool parse_special, std::span<const TextRange> quoted) const {
  std::vector<Section> sections;
  size_t done = 0;  // text before this has been given out
  for (size_t at = 0; at < text.size();) {
    if (!starts_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    // A control token ends before the next quoted range, and begins in none.
    while (!quoted.empty() && quoted.front().end <= at) quoted = quoted.subspan(1);
    const size_t control_limit =
        !parse_special ? 0 : (quoted.empty() ? text.size() : quoted.front().begin);
    const Hit hit = Longest(text, at, control_limit);
    if (hit.token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = hit.end;
    at = end;
    const AddedToken& token = *hit.token;

    if (token.single_word && (WordCharBefore(text, begin) || WordCharAt(text, end))) continue;
    if (token.left_strip) begin = SkipSpaceBefore(text, begin, std::min(done, begin));
    if (token.right_strip) end = SkipSpaceAfter(text, end);
    if (done < begin) sections.push_back({text.substr(done, begin - done), nullptr});
    sections.push_back({{}, hit.token});
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) sections.push_back({text.substr(done), nullptr});
  return sections;
}

}  // namespace weft
