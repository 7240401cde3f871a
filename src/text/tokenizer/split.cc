#include "text/tokenizer/split.h"

#include <algorithm>

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/regex.h"
#include "text/utf8.h"

namespace weft {
namespace {

using Piece = PreTokens::Piece;

// Collects the matches and gaps of one piece, in order, and turns them into pieces.
class PieceBuilder {
 public:
  PieceBuilder(SplitBehavior behavior, bool invert, std::vector<Piece>& out)
      : behavior_(behavior), invert_(invert), out_(&out) {}

  void StartPiece() {
    first_of_piece_ = out_->size();
    previous_was_match_ = false;
  }

  // Empty matches are neighbours that keep others apart, until Finish drops them.
  void Add(uint32_t begin, uint32_t end, bool is_match) {
    is_match = is_match != invert_;
    has_empty_ = has_empty_ || begin == end;
    const bool has_previous = out_->size() > first_of_piece_;
    switch (behavior_) {
      case SplitBehavior::kRemoved:
        if (!is_match) Push(begin, end);
        break;
      case SplitBehavior::kIsolated:
        Push(begin, end);
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (is_match && !previous_was_match_ && has_previous) {
          out_->back().end = end;
        } else {
          Push(begin, end);
        }
        break;
      case SplitBehavior::kMergedWithNext:
        if (!is_match && previous_was_match_ && has_previous) {
          out_->back().end = end;
        } else {
          Push(begin, end);
        }
        break;
      case SplitBehavior::kContiguous:
        if (is_match == previous_was_match_ && has_previous) {
          out_->back().end = end;
        } else {
          Push(begin, end);
        }
        break;
    }
    previous_was_match_ = is_match;
  }

  void Finish() {
    if (has_empty_) std::erase_if(*out_, [](Piece piece) { return piece.begin == piece.end; });
  }

 private:
  void Push(uint32_t begin, uint32_t end) { out_->push_back({begin, end}); }

  SplitBehavior behavior_;
  bool invert_;
  std::vector<Piece>* out_;
  size_t first_of_piece_ = 0;
  bool previous_was_match_ = false;
  bool has_empty_ = false;
};

class RegexSplit : public PreTokenizerStep {
 public:
  RegexSplit(Regex regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  Status Apply(PreTokens& tokens) const override {
    RegexSearch search(regex_);
    std::vector<Piece> out;
    out.reserve(tokens.text.size() / 4 + tokens.pieces.size());
    PieceBuilder builder(behavior_, invert_, out);
    for (const Piece piece : tokens.pieces) {
      builder.StartPiece();
      TRY(SplitPiece(tokens.View(piece), piece.begin, search, builder));
    }
    builder.Finish();
    tokens.pieces = std::move(out);
    return OkStatus();
  }

 private:
  // Lookarounds see this piece only. A match of nothing cuts where it is, unless a match has just
  // ended there.
  static Status SplitPiece(std::string_view text, uint32_t base, RegexSearch& search,
                           PieceBuilder& builder) {
    size_t done = 0;
    bool is_behind_match = false;  // of something or of nothing
    for (size_t from = 0; from <= text.size();) {
      RegexSearch::Match match;
      ASSIGN_OR_RETURN(const bool found, search.Find(text, from, match));
      if (!found) break;
      if (match.begin == match.end && is_behind_match && match.end == done) {
        from = match.end + (match.end < text.size() ? utf8::LengthOf(text[match.end]) : 1);
        continue;
      }
      is_behind_match = true;
      if (done < match.begin) builder.Add(At(base, done), At(base, match.begin), false);
      builder.Add(At(base, match.begin), At(base, match.end), true);
      done = from = match.end;
    }
    if (done < text.size()) builder.Add(At(base, done), At(base, text.size()), false);
    return OkStatus();
  }
  static uint32_t At(uint32_t base, size_t offset) { return base + static_cast<uint32_t>(offset); }

  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

class TextSplit : public PreTokenizerStep {
 public:
  TextSplit(std::string text, SplitBehavior behavior, bool invert)
      : text_(std::move(text)), behavior_(behavior), invert_(invert) {}

  Status Apply(PreTokens& tokens) const override {
    std::vector<Piece> out;
    PieceBuilder builder(behavior_, invert_, out);
    for (const Piece piece : tokens.pieces) {
      builder.StartPiece();
      const std::string_view view = tokens.View(piece);
      uint32_t done = 0;
      for (size_t at = view.find(text_); at != std::string_view::npos;
           at = view.find(text_, done)) {
        const auto begin = static_cast<uint32_t>(at);
        const auto end = static_cast<uint32_t>(at + text_.size());
        if (done < begin) builder.Add(piece.begin + done, piece.begin + begin, false);
        builder.Add(piece.begin + begin, piece.begin + end, true);
        done = end;
      }
      if (done < view.size()) builder.Add(piece.begin + done, piece.end, false);
    }
    tokens.pieces = std::move(out);
    return OkStatus();
  }

 private:
  std::string text_;
  SplitBehavior behavior_;
  bool invert_;
};

class ClassSplit : public PreTokenizerStep {
 public:
  ClassSplit(CharClass char_class, SplitBehavior behavior)
      : char_class_(char_class), behavior_(behavior) {}

  Status Apply(PreTokens& tokens) const override {
    std::vector<Piece> out;
    PieceBuilder builder(behavior_, false, out);
    for (const Piece piece : tokens.pieces) {
      builder.StartPiece();
      const std::string_view view = tokens.View(piece);
      size_t run = 0;  // start of the current run of characters outside the class
      for (size_t at = 0; at < view.size();) {
        const size_t begin = at;
        if (!Contains(utf8::Next(view, at))) continue;
        if (run < begin) builder.Add(At(piece, run), At(piece, begin), false);
        builder.Add(At(piece, begin), At(piece, at), true);
        run = at;
      }
      if (run < view.size()) builder.Add(At(piece, run), piece.end, false);
    }
    tokens.pieces = std::move(out);
    return OkStatus();
  }

 private:
  static uint32_t At(Piece piece, size_t offset) {
    return piece.begin + static_cast<uint32_t>(offset);
  }
  bool Contains(uint32_t code_point) const {
    switch (char_class_) {
      case CharClass::kNumeric:
        return utf8::IsNumeric(code_point);
      case CharClass::kPunctuation:
        return utf8::IsPunctuation(code_point);
      case CharClass::kWhiteSpace:
        return utf8::IsWhiteSpace(code_point);
    }
    return false;
  }

  CharClass char_class_;
  SplitBehavior behavior_;
};

// Steps that rewrite the text piece by piece.
class Rewrite : public PreTokenizerStep {
 public:
  Status Apply(PreTokens& tokens) const override {
    std::string text;
    text.reserve(tokens.text.size() + tokens.text.size() / 4);
    for (Piece& piece : tokens.pieces) {
      const std::string_view view = tokens.View(piece);
      const bool starts_input = tokens.starts_input && piece.begin == 0;
      const auto begin = static_cast<uint32_t>(text.size());
      RewritePiece(view, starts_input, text);
      if (text.size() > kMaxNormalizedBytes) {
        return Error(ErrorCode::kOutOfMemory, "The text would grow over the limit of " +
                                                  std::to_string(kMaxNormalizedBytes) + " bytes.");
      }
      piece = {begin, static_cast<uint32_t>(text.size())};
    }
    tokens.text = std::move(text);
    return OkStatus();
  }

 protected:
  virtual void RewritePiece(std::string_view piece, bool starts_input, std::string& out) const = 0;
};

class PrefixSpace : public Rewrite {
 protected:
  void RewritePiece(std::string_view piece, bool, std::string& out) const override {
    if (!piece.starts_with(' ')) out.push_back(' ');
    out += piece;
  }
};

class ByteLevel : public Rewrite {
 protected:
  void RewritePiece(std::string_view piece, bool, std::string& out) const override {
    AppendByteLevel(piece, out);
  }
};

class BytesToModel : public PreTokenizerStep {
 public:
  Status Apply(PreTokens& tokens) const override {
    tokens.as_bytes = true;
    return OkStatus();
  }
};

class Metaspace : public Rewrite {
 public:
  explicit Metaspace(MetaspaceOptions options)
      : options_(std::move(options)),
        split_(options_.replacement, SplitBehavior::kMergedWithNext, false) {}

  Status Apply(PreTokens& tokens) const override {
    TRY(Rewrite::Apply(tokens));
    return options_.split ? split_.Apply(tokens) : OkStatus();
  }

 protected:
  void RewritePiece(std::string_view piece, bool starts_input, std::string& out) const override {
    const bool wanted = options_.prepend == MetaspaceOptions::Prepend::kAlways ||
                        (options_.prepend == MetaspaceOptions::Prepend::kFirst && starts_input);
    if (wanted && !piece.starts_with(' ') && !piece.starts_with(options_.replacement)) {
      out += options_.replacement;
    }
    for (const char c : piece) {
      if (c == ' ') {
        out += options_.replacement;
      } else {
        out.push_back(c);
      }
    }
  }

 private:
  MetaspaceOptions options_;
  TextSplit split_;
};

}  // namespace

Result<PreTokenizerStepPtr> MakeRegexSplit(std::string_view pattern, SplitBehavior behavior,
                                           bool invert) {
  ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
  return PreTokenizerStepPtr(std::make_shared<RegexSplit>(std::move(regex), behavior, invert));
}

PreTokenizerStepPtr MakeTextSplit(std::string text, SplitBehavior behavior, bool invert) {
  return std::make_shared<TextSplit>(std::move(text), behavior, invert);
}

PreTokenizerStepPtr MakeClassSplit(CharClass char_class, SplitBehavior behavior) {
  return std::make_shared<ClassSplit>(char_class, behavior);
}

PreTokenizerStepPtr MakeMetaspace(MetaspaceOptions options) {
  return std::make_shared<Metaspace>(std::move(options));
}

PreTokenizerStepPtr MakePrefixSpace() {
  return std::make_shared<PrefixSpace>();
}
PreTokenizerStepPtr MakeByteLevel() {
  return std::make_shared<ByteLevel>();
}
PreTokenizerStepPtr MakeBytesToModel() {
  return std::make_shared<BytesToModel>();
}
bool IsByteLevel(const PreTokenizerStep& step) {
  return dynamic_cast<const ByteLevel*>(&step) != nullptr;
}

}  // namespace weft
