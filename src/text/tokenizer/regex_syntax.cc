// Oniguruma's Ruby syntax, as tokenizer files use it, in PCRE2's spelling. What differs: \s (PCRE2
// adds U+180E), \h (a hex digit there), {,n}, X{n,m}+ (a repeat of the repeat, not possessive), and
// intersections [a&&b].
#include <cctype>
#include <vector>

#include "text/tokenizer/regex.h"

namespace weft {
namespace {

constexpr std::string_view kSpaceInClass =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr int kMaxClassDepth = 8;

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
        Escape();
        return OkStatus();
      case '[':
        atom_ = out_.size();
        return Class();
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

  void Escape() {
    if (at_ + 1 >= in_.size()) {
      out_.push_back(in_[at_++]);
      return;
    }
    const char c = in_[at_ + 1];
    at_ += 2;
    if (c == 's') {
      out_.append("[").append(kSpaceInClass).append("]");
    } else if (c == 'S') {
      out_.append("[^").append(kSpaceInClass).append("]");
    } else if (c == 'h') {
      out_ += "[0-9A-Fa-f]";
    } else if (c == 'H') {
      out_ += "[^0-9A-Fa-f]";
    } else if (c == 'u') {
      UnicodeEscape();
    } else {
      out_.push_back('\\');
      out_.push_back(c);
      // \p{...} and \x{...}: their braces are no quantifier.
      if ((c == 'p' || c == 'P' || c == 'x') && at_ < in_.size() && in_[at_] == '{') {
        while (at_ < in_.size() && in_[at_] != '}') out_.push_back(in_[at_++]);
        if (at_ < in_.size()) out_.push_back(in_[at_++]);
      }
    }
  }

  // \uHHHH; the u has been consumed.
  void UnicodeEscape() {
    std::string digits;
    while (digits.size() < 4 && at_ < in_.size() && isxdigit(static_cast<uint8_t>(in_[at_]))) {
      digits.push_back(in_[at_++]);
    }
    out_ += "\\x{" + digits + "}";
  }

  // A bracketed class. [A&&[^B]] becomes (?:(?=[^B])[A]).
  Status Class() {
    if (++class_depth_ > kMaxClassDepth) return Unsupported("classes nested too deeply");
    Status status = ClassBody();
    --class_depth_;
    return status;
  }

  Status ClassBody() {
    std::vector<std::string> operands;
    std::string operand;
    ++at_;
    std::string prefix = "[";
    if (at_ < in_.size() && in_[at_] == '^') {
      prefix += "^";
      ++at_;
    }
    bool first = true;
    int inner = 0;  // open classes inside this one whose content just adds to it: [a[bc]]
    while (at_ < in_.size() && (in_[at_] != ']' || first || inner > 0)) {
      if (in_[at_] == ']' && !first) {
        --inner;
        ++at_;
        continue;
      }
      first = false;
      if (in_.substr(at_, 2) == "&&") {
        if (inner > 0) return Unsupported("an intersection inside a class inside a class");
        operands.push_back(prefix + operand + "]");
        operand.clear();
        at_ += 2;
        first = true;
      } else if (in_[at_] == '[' && in_.substr(at_, 2) == "[:") {
        const size_t end = in_.find(":]", at_ + 2);
        if (end == std::string_view::npos) return Unsupported("an unfinished [: :] class");
        operand.append(in_.substr(at_, end + 2 - at_));
        at_ = end + 2;
      } else if (in_[at_] == '[') {
        if (operands.empty()) {
          if (in_.substr(at_, 2) == "[^") return Unsupported("a complement inside a class");
          ++inner;
          ++at_;
          continue;
        }
        if (!operand.empty()) return Unsupported("a class inside an intersection");
        const std::string saved = std::move(out_);
        out_.clear();
        TRY(Class());
        operands.push_back(std::move(out_));
        out_ = saved;
        first = false;
      } else if (in_[at_] == '\\') {
        ClassEscape(operand);
      } else {
        operand.push_back(in_[at_++]);
      }
    }
    if (at_ >= in_.size()) return Unsupported("a class without its closing bracket");
    ++at_;
    if (operands.empty()) {
      out_ += prefix + operand + "]";
      return OkStatus();
    }
    if (prefix != "[") return Unsupported("the complement of an intersection");
    if (!operand.empty()) operands.push_back("[" + operand + "]");
    out_ += "(?:";
    for (size_t i = 1; i < operands.size(); ++i) out_ += "(?=" + operands[i] + ")";
    out_ += operands[0] + ")";
    return OkStatus();
  }

  void ClassEscape(std::string& operand) {
    if (at_ + 1 >= in_.size()) {
      operand.push_back(in_[at_++]);
      return;
    }
    const char c = in_[at_ + 1];
    at_ += 2;
    if (c == 's') {
      operand += kSpaceInClass;
    } else if (c == 'h') {
      operand += "0-9A-Fa-f";
    } else if (c == 'u') {
      const std::string saved = std::move(out_);
      out_.clear();
      UnicodeEscape();
      operand += out_;
      out_ = saved;
    } else {
      operand.push_back('\\');
      operand.push_back(c);
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
