#include "text/jinja/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>
#include <utility>

#include "text/utf8.h"

namespace weft::jinja::python {
namespace {

struct CharacterRange {
  uint32_t first, last;
};

// What str.isdigit takes beside decimal digits.
constexpr CharacterRange kOtherDigits[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
    {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
// Letters that are numbers, as the Chinese ones.
constexpr CharacterRange kNumberLetters[] = {
    {0x3405, 0x3405},   {0x3483, 0x3483},   {0x382A, 0x382A},   {0x3B4D, 0x3B4D},
    {0x4E00, 0x4E00},   {0x4E03, 0x4E03},   {0x4E07, 0x4E07},   {0x4E09, 0x4E09},
    {0x4E5D, 0x4E5D},   {0x4E8C, 0x4E8C},   {0x4E94, 0x4E94},   {0x4E96, 0x4E96},
    {0x4EBF, 0x4EC0},   {0x4EDF, 0x4EDF},   {0x4EE8, 0x4EE8},   {0x4F0D, 0x4F0D},
    {0x4F70, 0x4F70},   {0x5104, 0x5104},   {0x5146, 0x5146},   {0x5169, 0x5169},
    {0x516B, 0x516B},   {0x516D, 0x516D},   {0x5341, 0x5341},   {0x5343, 0x5345},
    {0x534C, 0x534C},   {0x53C1, 0x53C4},   {0x56DB, 0x56DB},   {0x58F1, 0x58F1},
    {0x58F9, 0x58F9},   {0x5E7A, 0x5E7A},   {0x5EFE, 0x5EFF},   {0x5F0C, 0x5F0E},
    {0x5F10, 0x5F10},   {0x62FE, 0x62FE},   {0x634C, 0x634C},   {0x67D2, 0x67D2},
    {0x6F06, 0x6F06},   {0x7396, 0x7396},   {0x767E, 0x767E},   {0x8086, 0x8086},
    {0x842C, 0x842C},   {0x8CAE, 0x8CAE},   {0x8CB3, 0x8CB3},   {0x8D30, 0x8D30},
    {0x9621, 0x9621},   {0x9646, 0x9646},   {0x964C, 0x964C},   {0x9678, 0x9678},
    {0x96F6, 0x96F6},   {0xF96B, 0xF96B},   {0xF973, 0xF973},   {0xF978, 0xF978},
    {0xF9B2, 0xF9B2},   {0xF9D1, 0xF9D1},   {0xF9D3, 0xF9D3},   {0xF9FD, 0xF9FD},
    {0x20001, 0x20001}, {0x20064, 0x20064}, {0x200E2, 0x200E2}, {0x20121, 0x20121},
    {0x2092A, 0x2092A}, {0x20983, 0x20983}, {0x2098C, 0x2098C}, {0x2099C, 0x2099C},
    {0x20AEA, 0x20AEA}, {0x20AFD, 0x20AFD}, {0x20B19, 0x20B19}, {0x22390, 0x22390},
    {0x22998, 0x22998}, {0x23B1B, 0x23B1B}, {0x2626D, 0x2626D}, {0x2F890, 0x2F890}};
// Lower-case characters of other categories than Ll.
constexpr CharacterRange kOtherLower[] = {
    {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},    {0x2E0, 0x2E4},
    {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},  {0x1D9B, 0x1DBF},
    {0x2071, 0x2071},   {0x207F, 0x207F},   {0x2090, 0x209C},   {0x2170, 0x217F},  {0x24D0, 0x24E9},
    {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},  {0xAB5C, 0xAB5F},
    {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}};
// Upper-case characters of other categories than Lu.
constexpr CharacterRange kOtherUpper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
// Characters whose upper case is several.
constexpr std::pair<uint32_t, std::string_view> kLongUpper[] = {
    {0xDF, "SS"},    {0x149, "ʼN"},   {0x1F0, "J̌"},   {0x390, "Ϊ́"},   {0x3B0, "Ϋ́"},
    {0x587, "ԵՒ"},   {0x1E96, "H̱"},   {0x1E97, "T̈"},  {0x1E98, "W̊"},  {0x1E99, "Y̊"},
    {0x1E9A, "Aʾ"},  {0x1F50, "Υ̓"},   {0x1F52, "Υ̓̀"},  {0x1F54, "Υ̓́"},  {0x1F56, "Υ̓͂"},
    {0x1FB2, "ᾺΙ"},  {0x1FB3, "ΑΙ"},  {0x1FB4, "ΆΙ"}, {0x1FB6, "Α͂"},  {0x1FB7, "Α͂Ι"},
    {0x1FBC, "ΑΙ"},  {0x1FC2, "ῊΙ"},  {0x1FC3, "ΗΙ"}, {0x1FC4, "ΉΙ"}, {0x1FC6, "Η͂"},
    {0x1FC7, "Η͂Ι"},  {0x1FCC, "ΗΙ"},  {0x1FD2, "Ϊ̀"},  {0x1FD3, "Ϊ́"},  {0x1FD6, "Ι͂"},
    {0x1FD7, "Ϊ͂"},   {0x1FE2, "Ϋ̀"},   {0x1FE3, "Ϋ́"},  {0x1FE4, "Ρ̓"},  {0x1FE6, "Υ͂"},
    {0x1FE7, "Ϋ͂"},   {0x1FF2, "ῺΙ"},  {0x1FF3, "ΩΙ"}, {0x1FF4, "ΏΙ"}, {0x1FF6, "Ω͂"},
    {0x1FF7, "Ω͂Ι"},  {0x1FFC, "ΩΙ"},  {0xFB00, "FF"}, {0xFB01, "FI"}, {0xFB02, "FL"},
    {0xFB03, "FFI"}, {0xFB04, "FFL"}, {0xFB05, "ST"}, {0xFB06, "ST"}, {0xFB13, "ՄՆ"},
    {0xFB14, "ՄԵ"},  {0xFB15, "ՄԻ"},  {0xFB16, "ՎՆ"}, {0xFB17, "ՄԽ"}};

constexpr uint32_t kCapitalSigma = 0x3A3;
constexpr uint32_t kFinalSigma = 0x3C2;
constexpr uint32_t kCapitalIota = 0x399;
constexpr uint32_t kIotaBelow = 0x345;

bool IsIn(std::span<const CharacterRange> ranges, uint32_t c) {
  const auto range = std::ranges::lower_bound(ranges, c, {}, &CharacterRange::last);
  return range != ranges.end() && c >= range->first;
}

utf8proc_category_t Category(uint32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

uint32_t SimpleUpper(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
uint32_t SimpleLower(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
uint32_t SimpleTitle(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

std::u32string CodePoints(std::string_view text) {
  std::u32string characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) characters.push_back(utf8::Next(text, at));
  return characters;
}

// Characters that the search for a word's end around a sigma passes over.
bool IsCaseIgnorable(uint32_t c) {
  static constexpr uint32_t kPoints[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,
                                         0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                         0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
         category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
         category == UTF8PROC_CATEGORY_SK || std::ranges::binary_search(kPoints, c);
}

// A sigma behind a letter, with none after it.
bool EndsWord(const std::u32string& text, size_t at) {
  size_t before = at;
  while (before > 0 && IsCaseIgnorable(text[before - 1])) --before;
  if (before == 0 || !IsCased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && IsCaseIgnorable(text[after])) ++after;
  return after == text.size() || !IsCased(text[after]);
}

void AppendLower(std::string& out, const std::u32string& text, size_t at) {
  const uint32_t c = text[at];
  if (c == 0x130) {  // the one character whose lower case is two
    out += "i\xCC\x87";
  } else if (c == kCapitalSigma && EndsWord(text, at)) {
    utf8::Append(out, kFinalSigma);
  } else {
    utf8::Append(out, SimpleLower(c));
  }
}

std::string UpperOf(uint32_t c) {
  std::string upper;
  // Greek letters with iota below: U+1F80 is U+1F08 with a capital iota after it.
  if (c >= 0x1F80 && c <= 0x1FAF) {
    const uint32_t base = c < 0x1F90 ? 0x1F08 : (c < 0x1FA0 ? 0x1F28 : 0x1F68);
    utf8::Append(upper, base + (c & 7));
    utf8::Append(upper, kCapitalIota);
    return upper;
  }
  const auto* known =
      std::ranges::lower_bound(kLongUpper, c, {}, &std::pair<uint32_t, std::string_view>::first);
  if (known != std::end(kLongUpper) && known->first == c) return std::string(known->second);
  utf8::Append(upper, SimpleUpper(c));
  return upper;
}

std::string TitleOf(uint32_t c) {
  std::string title;
  const uint32_t simple = SimpleTitle(c);
  const std::string upper = UpperOf(c);
  if (Category(simple) == UTF8PROC_CATEGORY_LT || utf8::CountCodePoints(upper) == 1) {
    utf8::Append(title, simple);
    return title;
  }
  const std::u32string parts = CodePoints(upper);
  utf8::Append(title, parts[0]);
  for (const char32_t part : parts.substr(1)) {
    const uint32_t lower = part == kCapitalIota ? kIotaBelow : SimpleLower(part);
    utf8::Append(title, IsCased(parts[0]) ? lower : part);
  }
  return title;
}

}  // namespace

bool IsSpace(uint32_t c) {
  return utf8::IsWhiteSpace(c) || (c >= 0x1C && c <= 0x1F);
}

bool IsLetter(uint32_t c) {
  const utf8proc_category_t category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(uint32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_ND;
}

bool IsDigit(uint32_t c) {
  return IsDecimal(c) || IsIn(kOtherDigits, c);
}

bool IsNumber(uint32_t c) {
  return utf8::IsNumeric(c) || IsIn(kNumberLetters, c);
}

bool IsPrintable(uint32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool IsLower(uint32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LL || IsIn(kOtherLower, c);
}
bool IsUpper(uint32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LU || IsIn(kOtherUpper, c);
}
bool IsTitle(uint32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LT;
}
bool IsCased(uint32_t c) {
  return IsLower(c) || IsUpper(c) || IsTitle(c);
}

bool EndsLine(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

std::string Lower(std::string_view text) {
  // A capital sigma is CE A3; without one no character needs its neighbours.
  if (text.find("\xCE\xA3") == std::string_view::npos) return utf8::Lower(text);
  const std::u32string characters = CodePoints(text);
  std::string lower;
  for (size_t i = 0; i < characters.size(); ++i) AppendLower(lower, characters, i);
  return lower;
}

std::string Upper(std::string_view text) {
  std::string upper;
  upper.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = utf8::Next(text, at);
    if (c < 0x80) {
      upper.push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
    } else {
      upper += UpperOf(c);
    }
  }
  return upper;
}

std::string Title(std::string_view text) {
  const std::u32string characters = CodePoints(text);
  std::string title;
  bool in_word = false;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (in_word) {
      AppendLower(title, characters, i);
    } else {
      title += TitleOf(characters[i]);
    }
    in_word = IsCased(characters[i]);
  }
  return title;
}

std::string Capitalize(std::string_view text) {
  const std::u32string characters = CodePoints(text);
  std::string capital;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (i == 0) {
      capital += TitleOf(characters[i]);
    } else {
      AppendLower(capital, characters, i);
    }
  }
  return capital;
}

std::string SwapCase(std::string_view text) {
  const std::u32string characters = CodePoints(text);
  std::string swapped;
  for (size_t i = 0; i < characters.size(); ++i) {
    if (IsUpper(characters[i])) {
      AppendLower(swapped, characters, i);
    } else if (IsLower(characters[i])) {
      swapped += UpperOf(characters[i]);
    } else {
      utf8::Append(swapped, characters[i]);
    }
  }
  return swapped;
}

std::string CaseFold(std::string_view text) {
  std::string folded;
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t parts[8];
    int last_class = 0;
    const auto c = static_cast<utf8proc_int32_t>(utf8::Next(text, at));
    const auto count = utf8proc_decompose_char(c, parts, 8, UTF8PROC_CASEFOLD, &last_class);
    for (utf8proc_ssize_t i = 0; i < std::min<utf8proc_ssize_t>(count, 8); ++i) {
      utf8::Append(folded, static_cast<uint32_t>(parts[i]));
    }
  }
  return folded;
}

// Decimal digits stand in runs of ten, some of them side by side.
int DigitValue(uint32_t c) {
  if (!IsDecimal(c)) return -1;
  uint32_t begin = c;
  while (begin > 0 && IsDecimal(begin - 1)) --begin;
  return static_cast<int>((c - begin) % 10);
}

std::string Quoted(std::string_view text) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string quoted(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t c = utf8::Next(text, at);
    char escape[12];
    if (c == static_cast<uint32_t>(quote) || c == '\\') {
      quoted += {'\\', static_cast<char>(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      quoted += {'\\', c == '\n' ? 'n' : (c == '\r' ? 'r' : 't')};
    } else if (IsPrintable(c)) {
      quoted += text.substr(begin, at - begin);
    } else {
      const char* form = c < 0x100 ? "\\x%02x" : (c < 0x10000 ? "\\u%04x" : "\\U%08x");
      std::snprintf(escape, sizeof(escape), form, c);
      quoted += escape;
    }
  }
  quoted.push_back(quote);
  return quoted;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const double size = std::fabs(value);
  // Python switches to exponents at 1e16 and below 1e-4.
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::optional<double> ParseFloat(std::string_view text) {
  std::string ascii = AsciiDigits(text);
  // Underscores separate digits.
  for (size_t at = ascii.find('_'); at != std::string::npos; at = ascii.find('_')) {
    const auto digit = [&](size_t i) {
      return i < ascii.size() && ascii[i] >= '0' && ascii[i] <= '9';
    };
    if (at == 0 || !digit(at - 1) || !digit(at + 1)) return std::nullopt;
    ascii.erase(at, 1);
  }
  std::string_view rest = ascii;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.starts_with('-') || rest.starts_with('+')) return std::nullopt;
  double value = 0;
  const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end.ptr != rest.data() + rest.size() || rest.empty() || rest.find('(') != rest.npos) {
    return std::nullopt;
  }
  if (end.ec == std::errc::result_out_of_range) {
    // Too small is 0, too large infinite.
    const size_t exponent = rest.find_first_of("eE");
    const bool small =
        exponent != rest.npos ? rest.substr(exponent + 1).starts_with('-') : rest.starts_with("0.");
    value = small ? 0 : std::numeric_limits<double>::infinity();
  } else if (end.ec != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

double Round(double value, int digits) {
  if (!std::isfinite(value)) return value;
  if (digits < 0) {
    const double scale = std::pow(10.0, -digits);
    return std::nearbyint(value / scale) * scale;
  }
  // More digits than a double has change nothing.
  if (digits > 320) return value;
  // printf rounds the exact value, as Python does: 2.675 is a little less than it says.
  const int size = std::snprintf(nullptr, 0, "%.*f", digits, value);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  double rounded = value;
  std::from_chars(text.data(), text.data() + size, rounded);
  return rounded;
}

}  // namespace weft::jinja::python

namespace weft::jinja {

std::string AsciiDigits(std::string_view text) {
  std::string ascii;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t c = utf8::Next(text, at);
    const int digit = c < 0x80 ? -1 : python::DigitValue(c);
    if (digit >= 0) {
      ascii.push_back(static_cast<char>('0' + digit));
    } else if (python::IsSpace(c)) {
      ascii.push_back(' ');
    } else {
      ascii += text.substr(begin, at - begin);
    }
  }
  const size_t first = ascii.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return ascii.substr(first, ascii.find_last_not_of(' ') - first + 1);
}

}  // namespace weft::jinja
