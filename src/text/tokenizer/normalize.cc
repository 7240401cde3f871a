#include "text/tokenizer/normalize.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/unicode9.h"
#include "text/utf8.h"

namespace weft {
namespace {

Error TooLong() {
  return Error(ErrorCode::kOutOfMemory, "The normalised text would be over the limit of " +
                                            std::to_string(kMaxNormalizedBytes) + " bytes.");
}

Result<std::string> ReplaceText(const std::string& text, const std::string& from,
                                const std::string& to) {
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done);
    out += to;
    done = at + from.size();
    if (out.size() > kMaxNormalizedBytes) return TooLong();
  }
  out.append(text, done);
  return out;
}

Result<std::string> ReplaceRegex(const std::string& text, const Regex& regex,
                                 const std::string& to) {
  RegexSearch search(regex);
  std::string out;
  size_t done = 0;
  for (size_t from = 0; from <= text.size();) {
    RegexSearch::Match match;
    ASSIGN_OR_RETURN(const bool found, search.Find(text, from, match));
    if (!found) break;
    out.append(text, done, match.begin - done);
    out += to;
    done = match.end;
    if (out.size() > kMaxNormalizedBytes) return TooLong();
    from = match.end;
    if (match.begin == match.end) from += from < text.size() ? utf8::LengthOf(text[from]) : 1;
  }
  out.append(text, done);
  return out;
}

// Characters below U+0300 are their own NFC, and compose with nothing before them.
bool IsBelowCombining(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

// utf8proc orders combining marks by exchanging neighbours, quadratic for a long run of them; this
// sorts each run.
void OrderMarks(std::vector<utf8proc_int32_t>& text) {
  const auto mark_class = [](utf8proc_int32_t c) {
    return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class;
  };
  for (size_t begin = 0; begin < text.size();) {
    if (mark_class(text[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < text.size() && mark_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<ptrdiff_t>(begin),
                     text.begin() + static_cast<ptrdiff_t>(end),
                     [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
    begin = end;
  }
}

// Puts the decomposed characters of `points` in their order, composes them and appends them.
void AppendForm(std::vector<utf8proc_int32_t>& points, bool compose, std::string& out) {
  OrderMarks(points);
  auto count = static_cast<utf8proc_ssize_t>(points.size());
  if (compose) {
    count = utf8proc_normalize_utf32(
        points.data(), count, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    utf8::Append(out, static_cast<uint32_t>(points[static_cast<size_t>(i)]));
  }
  points.clear();
}

// A character that is newer than the library's Unicode stays as it is, and nothing is ordered or
// composed across it.
std::string UnicodeForm(std::string_view text, bool compose, bool compatibility) {
  const int decompose_options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const uint32_t code_point = utf8::Next(text, at);
    if (IsPlainInUnicode9(code_point)) {
      AppendForm(points, compose, out);
      utf8::Append(out, code_point);
      continue;
    }
    const auto c = static_cast<utf8proc_int32_t>(code_point);
    utf8proc_int32_t parts[32];
    int last_boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        c, parts, 32, static_cast<utf8proc_option_t>(decompose_options), &last_boundary);
    if (count < 1 || count > 32) {
      points.push_back(c);
    } else {
      points.insert(points.end(), parts, parts + count);
    }
  }
  AppendForm(points, compose, out);
  return out;
}

std::string StripMarks(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = utf8::Next(text, at);
    if (!IsMarkInUnicode9(c)) utf8::Append(out, c);
  }
  return out;
}

std::string StripSpace(std::string_view text, bool left, bool right) {
  size_t begin = 0;
  size_t end = text.size();
  while (left && begin < end) {
    size_t after = begin;
    if (!utf8::IsWhiteSpace(utf8::Next(text, after))) break;
    begin = after;
  }
  while (right && end > begin) {
    const size_t before = utf8::Previous(text, end);
    size_t after = before;
    if (!utf8::IsWhiteSpace(utf8::Next(text, after))) break;
    end = before;
  }
  return std::string(text.substr(begin, end - begin));
}

// Most control characters go; other white space, and what stands for a space, becomes one.
std::string Nmt(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = utf8::Next(text, at);
    const bool is_dropped = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                            c == 0x7F || c == 0x8F || c == 0x9F;
    if (is_dropped) continue;
    const bool is_space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                          (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                          c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    utf8::Append(out, is_space ? ' ' : c);
  }
  return out;
}

}  // namespace

Result<Normalizer> Normalizer::FromJson(const boost::json::value& value, std::string where) {
  Normalizer normalizer;
  if (value.is_null()) return normalizer;
  TRY(ForEachStep(
      value, where, "normalizers",
      [&](const JsonFields& step, const std::string& type) { return normalizer.Add(step, type); }));
  return normalizer;
}

Status Normalizer::Add(const JsonFields& fields, const std::string& type) {
  if (type == "Prepend") {
    ASSIGN_OR_RETURN(std::string prefix, fields.String("prepend"));
    steps_.push_back({.kind = Kind::kPrepend, .text = std::move(prefix)});
  } else if (type == "Replace") {
    ASSIGN_OR_RETURN(std::string content, fields.String("content"));
    ASSIGN_OR_RETURN(const JsonFields pattern, fields.Object("pattern"));
    if (pattern.Find("Regex") != nullptr) {
      ASSIGN_OR_RETURN(const std::string source, pattern.String("Regex"));
      ASSIGN_OR_RETURN(Regex regex, Regex::Compile(source));
      steps_.push_back({.kind = Kind::kReplaceRegex,
                        .content = std::move(content),
                        .regex = std::make_shared<const Regex>(std::move(regex))});
    } else {
      ASSIGN_OR_RETURN(std::string text, pattern.String("String"));
      if (text.empty()) return pattern.Wrong("String", "a text that is not empty");
      steps_.push_back(
          {.kind = Kind::kReplaceText, .text = std::move(text), .content = std::move(content)});
    }
  } else if (type == "Strip") {
    ASSIGN_OR_RETURN(const bool left, fields.Bool("strip_left", true));
    ASSIGN_OR_RETURN(const bool right, fields.Bool("strip_right", true));
    steps_.push_back({.kind = Kind::kStrip, .left = left, .right = right});
  } else if (type == "Precompiled") {
    ASSIGN_OR_RETURN(const std::string text, fields.String("precompiled_charsmap"));
    const auto bytes = FromBase64(text);
    if (!bytes) return fields.Wrong("precompiled_charsmap", "base64");
    ASSIGN_OR_RETURN(Charsmap map, Charsmap::FromBytes(*bytes).Context(
                                       "While reading " + fields.Place("precompiled_charsmap")));
    // Of GGUF files (vocabulary_spec.cc); the library has no such field.
    ASSIGN_OR_RETURN(const bool longest, fields.Bool("longest_match", false));
    steps_.push_back({.kind = longest ? Kind::kCharsmapLongest : Kind::kCharsmap,
                      .charsmap = std::make_shared<const Charsmap>(std::move(map))});
  } else {
    static constexpr std::pair<std::string_view, Kind> kPlain[] = {
        {"NFC", Kind::kNfc},
        {"NFD", Kind::kNfd},
        {"NFKC", Kind::kNfkc},
        {"NFKD", Kind::kNfkd},
        {"Lowercase", Kind::kLowercase},
        {"StripAccents", Kind::kStripAccents},
        {"Nmt", Kind::kNmt},
        {"ByteLevel", Kind::kByteLevel}};
    const auto* plain = std::find_if(std::begin(kPlain), std::end(kPlain),
                                     [&](const auto& named) { return named.first == type; });
    if (plain == std::end(kPlain)) return UnknownType(fields, type);
    steps_.push_back({.kind = plain->second});
  }
  return OkStatus();
}

Result<std::string> Normalizer::Run(const Step& step, std::string text) {
  switch (step.kind) {
    case Kind::kPrepend:
      return text.empty() ? text : step.text + text;
    case Kind::kReplaceText:
      return ReplaceText(text, step.text, step.content);
    case Kind::kReplaceRegex:
      return ReplaceRegex(text, *step.regex, step.content);
    case Kind::kNfc:
      return IsBelowCombining(text) ? text : UnicodeForm(text, true, false);
    case Kind::kNfd:
      return IsAscii(text) ? text : UnicodeForm(text, false, false);
    case Kind::kNfkc:
      return IsAscii(text) ? text : UnicodeForm(text, true, true);
    case Kind::kNfkd:
      return IsAscii(text) ? text : UnicodeForm(text, false, true);
    case Kind::kLowercase:
      return utf8::Lower(text);
    case Kind::kStrip:
      return StripSpace(text, step.left, step.right);
    case Kind::kStripAccents:
      return StripMarks(text);
    case Kind::kByteLevel: {
      std::string mapped;
      AppendByteLevel(text, mapped);
      return mapped;
    }
    case Kind::kNmt:
      return Nmt(text);
    case Kind::kCharsmap:
      return ReplaceByCharacters(*step.charsmap, text);
    case Kind::kCharsmapLongest:
      return ReplaceLongest(*step.charsmap, text);
  }
  return text;
}

Result<std::string> Normalizer::Apply(std::string_view text) const {
  std::string current(text);
  for (const Step& step : steps_) {
    ASSIGN_OR_RETURN(current, Run(step, std::move(current)));
    if (current.size() > kMaxNormalizedBytes) return TooLong();
  }
  return current;
}

}  // namespace weft
