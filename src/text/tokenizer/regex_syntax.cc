// Oniguruma's Ruby syntax, as tokenizer files use it, in PCRE2's spelling. What differs: \w, \b and
// the classes in [: :] (PCRE2 knows letters and numbers there, Oniguruma what is alphabetic, marks,
// decimal digits and connectors), \s (PCRE2 adds U+180E), \h (a hex digit there), {,n}, X{n,m}+ (a
// repeat of the repeat, not possessive), classes inside of classes and intersections [a&&b].
#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "text/tokenizer/regex.h"

namespace weft {
namespace {

// What stands in a class for these. White_Space of Unicode:
constexpr std::string_view kSpaceInClass =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// ASCII is in the properties, too: by itself PCRE2 finds it in a table.
constexpr std::string_view kWordInClass = R"(0-9A-Z_a-z\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside of a class Oniguruma looks \w up in a table of Latin-1, where these are words, too.
constexpr std::string_view kWordAlone =
    R"(0-9A-Z_a-z\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kHexInClass = "0-9A-Fa-f";

constexpr int kMaxClassDepth = 8;

struct NamedClass {
  std::string_view name;
  std::string_view content;
  bool is_complement = false;  // of what `content` says
};
// [:alpha:] and \p{Alpha}, by what Oniguruma 6.9 takes them for.
constexpr NamedClass kNamedClasses[] = {
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"ascii", R"(\x00-\x7F)"},
    {"blank", R"(\p{Zs}\t)"},
    {"cntrl", R"(\p{Cc})"},
    {"digit", R"(\p{Nd})"},
    {"graph", R"(\p{Cc}\p{Cn}\p{Cs}\p{Zs}\x{2028}\x{2029})", true},
    {"lower", R"(\p{Lowercase})"},
    {"print", R"(\p{Cc}\p{Cn}\p{Cs}\x{2028}\x{2029})", true},
    {"punct", R"(\p{P}\p{S})"},
    {"space", kSpaceInClass},
    {"upper", R"(\p{Uppercase})"},
    {"word", kWordInClass},
    {"xdigit", kHexInClass},
};
// Long names of general categories, which PCRE2 has not.
constexpr std::pair<std::string_view, std::string_view> kCategories[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"casedletter", "L&"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"surrogate", "Cs"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
};

const NamedClass* FindNamedClass(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kNamedClasses), std::end(kNamedClasses),
                   [name](const NamedClass& known) { return known.name == name; });
  return found == std::end(kNamedClasses) ? nullptr : found;
}

// Names of properties are the same with and without spaces, hyphens and underscores, in any case.
std::string LooseName(std::string_view name) {
  std::string loose;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    loose.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return loose;
}

// The characters of a class in brackets: what `content` says, and whatever one of `others`, each an
// expression of one character, finds.
struct CharSet {
  std::string content;
  std::vector<std::string> others;

  void AddComplement(std::string_view of) { others.push_back("[^" + std::string(of) + "]"); }
  void Add(const NamedClass& named, bool negated) {
    if (named.is_complement != negated) {
      AddComplement(named.content);
    } else {
      content += named.content;
    }
  }

  // One character that is, or is not, in the set.
  std::string Expression(bool negated) const {
    std::string any_other;
    for (const std::string& other : others) any_other += (any_other.empty() ? "" : "|") + other;
    if (!negated) {
      if (others.empty()) return "[" + content + "]";
      if (content.empty() && others.size() == 1) return others[0];
      const std::string own = content.empty() ? "" : "[" + content + "]|";
      return "(?:" + own + any_other + ")";
    }
    if (others.empty()) return "[^" + content + "]";
    const std::string own = content.empty() ? R"([\s\S])" : "[^" + content + "]";
    return "(?:(?!" + any_other + ")" + own + ")";
  }
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> Run() {
    while (at_ < in_.size()) TRY(Step());
    return std::move(out_);
  }

 private:
  Status Step() {
    const char c = in_[at_];
    switch (c) {
      case '\\':
        atom_ = out_.size();
        return Escape();
      case '[': {
        atom_ = out_.size();
        ASSIGN_OR_RETURN(const ClassText text, Class());
        out_ += text.expression;
        return OkStatus();
      }
      case '(':
        groups_.push_back(out_.size());
        out_.push_back(c);
        ++at_;
        // What follows "(?" is not a quantifier.
        while (at_ < in_.size() && std::string_view("?<=!:>").find(in_[at_]) != std::string::npos) {
          out_.push_back(in_[at_++]);
        }
        return OkStatus();
      case ')':
        if (!groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        out_.push_back(c);
        ++at_;
        return OkStatus();
      case '{':
        Braces();
        return OkStatus();
      case '*':
      case '+':
      case '?':
        out_.push_back(c);
        ++at_;
        return OkStatus();
      default:
        atom_ = out_.size();
        do {
          out_.push_back(in_[at_++]);
        } while (at_ < in_.size() && (static_cast<uint8_t>(in_[at_]) & 0xC0) == 0x80);
        return OkStatus();
    }
  }

  Status Escape() {
    if (at_ + 1 >= in_.size()) {
      out_.push_back(in_[at_++]);
      return OkStatus();
    }
    const char c = in_[at_ + 1];
    at_ += 2;
    const auto one_of = [this](std::string_view content) {
      out_.append("[").append(content).append("]");
    };
    const auto none_of = [this](std::string_view content) {
      out_.append("[^").append(content).append("]");
    };
    switch (c) {
      case 's':
        one_of(kSpaceInClass);
        break;
      case 'S':
        none_of(kSpaceInClass);
        break;
      case 'h':
        one_of(kHexInClass);
        break;
      case 'H':
        none_of(kHexInClass);
        break;
      case 'w':
        one_of(kWordAlone);
        break;
      case 'W':
        none_of(kWordAlone);
        break;
      case 'b':
      case 'B': {
        // An edge is where a word ends or begins: behind a word, no word follows, else one does.
        const std::string word = "[" + std::string(kWordAlone) + "]";
        const bool is_edge = c == 'b';
        out_ += "(?(?<=" + word + (is_edge ? ")(?!" : ")(?=") + word +
                (is_edge ? ")|(?=" : ")|(?!") + word + "))";
        break;
      }
      case 'u':
        out_ += UnicodeEscape();
        break;
      case 'p':
      case 'P': {
        CharSet set;
        Property(c == 'P', &set);
        // A property alone needs no brackets.
        const size_t end = set.content.find('}');
        const bool is_alone = set.others.empty() && set.content.starts_with("\\") &&
                              (end == std::string::npos || end + 1 == set.content.size());
        out_ += is_alone ? set.content : set.Expression(false);
        break;
      }
      case 'x':
        out_ += "\\x";
        CopyBraces(&out_);
        break;
      default:
        out_.push_back('\\');
        out_.push_back(c);
    }
    return OkStatus();
  }

  // "{...}", if that comes: no quantifier.
  void CopyBraces(std::string* to) {
    if (at_ >= in_.size() || in_[at_] != '{') return;
    while (at_ < in_.size() && in_[at_] != '}') to->push_back(in_[at_++]);
    if (at_ < in_.size()) to->push_back(in_[at_++]);
  }

  // \p{Name}, \p{^Name}, \pL; the p has been consumed.
  void Property(bool negated, CharSet* set) {
    std::string text;
    CopyBraces(&text);
    if (text.size() < 3 || text.back() != '}') {
      set->content += (negated ? "\\P" : "\\p") + text;
      return;
    }
    std::string_view name = std::string_view(text).substr(1, text.size() - 2);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const std::string loose = LooseName(name);
    if (const NamedClass* named = FindNamedClass(loose)) return set->Add(*named, negated);
    const auto* const category =
        std::find_if(std::begin(kCategories), std::end(kCategories),
                     [&loose](const auto& known) { return known.first == loose; });
    const std::string_view known = category == std::end(kCategories) ? name : category->second;
    set->content += (negated ? "\\P{" : "\\p{") + std::string(known) + "}";
  }

  // \uHHHH; the u has been consumed.
  std::string UnicodeEscape() {
    std::string digits;
    while (digits.size() < 4 && at_ < in_.size() && isxdigit(static_cast<uint8_t>(in_[at_]))) {
      digits.push_back(in_[at_++]);
    }
    return "\\x{" + digits + "}";
  }

  struct ClassText {
    std::string expression;
    std::optional<std::string> content;  // of one that is nothing but "[content]"
  };

  // A bracketed class. [A&&[^B]] becomes (?:(?=[^B])[A]).
  Result<ClassText> Class() {
    if (++class_depth_ > kMaxClassDepth) return Unsupported("classes nested too deeply");
    ++at_;
    const bool negated = at_ < in_.size() && in_[at_] == '^';
    if (negated) ++at_;
    std::vector<CharSet> operands(1);
    bool is_first = true;
    while (at_ < in_.size() && (in_[at_] != ']' || is_first)) {
      CharSet& set = operands.back();
      is_first = false;
      if (in_.substr(at_, 2) == "&&") {
        operands.emplace_back();
        at_ += 2;
        is_first = true;
      } else if (in_.substr(at_, 2) == "[:") {
        TRY(PosixClass(&set));
      } else if (in_[at_] == '[') {
        ASSIGN_OR_RETURN(ClassText inner, Class());
        if (inner.content) {
          set.content += *inner.content;
        } else {
          set.others.push_back(std::move(inner.expression));
        }
      } else if (in_[at_] == '\\') {
        ClassEscape(&set);
      } else {
        set.content.push_back(in_[at_++]);
      }
    }
    if (at_ >= in_.size()) return Unsupported("a class without its closing bracket");
    ++at_;
    --class_depth_;
    ClassText text;
    if (operands.size() == 1) {
      text.expression = operands[0].Expression(negated);
      if (!negated && operands[0].others.empty()) text.content = operands[0].content;
      return text;
    }
    for (size_t i = 1; i < operands.size(); ++i) {
      text.expression += "(?=" + operands[i].Expression(false) + ")";
    }
    text.expression = "(?:" + text.expression + operands[0].Expression(false) + ")";
    if (negated) text.expression = "(?:(?!" + text.expression + R"()[\s\S]))";
    return text;
  }

  // [:name:] or [:^name:]
  Status PosixClass(CharSet* set) {
    const size_t end = in_.find(":]", at_ + 2);
    if (end == std::string_view::npos) return Unsupported("an unfinished [: :] class");
    std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const NamedClass* named = FindNamedClass(name);
    if (named == nullptr) return Unsupported("the class [:" + std::string(name) + ":]");
    set->Add(*named, negated);
    at_ = end + 2;
    return OkStatus();
  }

  void ClassEscape(CharSet* set) {
    if (at_ + 1 >= in_.size()) {
      set->content.push_back(in_[at_++]);
      return;
    }
    const char c = in_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 's':
        set->content += kSpaceInClass;
        break;
      case 'S':
        set->AddComplement(kSpaceInClass);
        break;
      case 'h':
        set->content += kHexInClass;
        break;
      case 'H':
        set->AddComplement(kHexInClass);
        break;
      case 'w':
        set->content += kWordInClass;
        break;
      case 'W':
        set->AddComplement(kWordInClass);
        break;
      case 'u':
        set->content += UnicodeEscape();
        break;
      case 'p':
      case 'P':
        Property(c == 'P', set);
        break;
      case 'x':
        set->content += "\\x";
        CopyBraces(&set->content);
        break;
      default:
        set->content.push_back('\\');
        set->content.push_back(c);
    }
  }

  void Braces() {
    const size_t close = in_.find('}', at_);
    const std::string_view body =
        close == std::string_view::npos ? "" : in_.substr(at_ + 1, close - at_ - 1);
    const bool quantifier = !body.empty() && body != "," &&
                            body.find_first_not_of("0123456789,") == std::string_view::npos;
    if (!quantifier) {
      atom_ = out_.size();
      out_ += "\\{";
      ++at_;
      return;
    }
    at_ = close + 1;
    const std::string repeat = (body[0] == ',' ? "{0" : "{") + std::string(body) + "}";
    if (at_ < in_.size() && in_[at_] == '+') {
      out_.insert(atom_, "(?:");
      out_ += repeat + ")";
    } else {
      out_ += repeat;
    }
  }

  Error Unsupported(std::string_view what) const {
    return Error(ErrorCode::kUnsupported, "The regular expression \"" + std::string(in_) +
                                              "\" uses " + std::string(what) +
                                              ", which weft does not support.");
  }

  std::string_view in_;
  std::string out_;
  int class_depth_ = 0;
  size_t at_ = 0;
  size_t atom_ = 0;             // where the last repeatable item starts in out_
  std::vector<size_t> groups_;  // starts of the open groups in out_
};

}  // namespace

Result<std::string> TranslateOniguruma(std::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace weft
