#include "text/tokenizer/vocabulary_spec.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "text/tokenizer/added.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/named_pre_tokenizer.h"
#include "text/utf8.h"

namespace weft {
namespace {

namespace json = boost::json;

// No token of a merged vocabulary is longer; control tokens may be.
constexpr size_t kMaxMergedBytes = 1024;

json::object Split(const std::string& pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

// SentencePiece's space.
constexpr std::string_view kSpace = "\u2581";

// `kind`: String or Regex.
json::object Replace(std::string_view kind, std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}

class TokenizerWriter {
 public:
  explicit TokenizerWriter(const VocabularySpec& spec) : spec_(spec) {}

  Result<std::string> Run() {
    TRY(CheckSizes());
    TRY(AddTokens());
    out_["version"] = "1.0";
    out_["truncation"] = nullptr;
    out_["padding"] = nullptr;
    out_["added_tokens"] = std::move(added_);
    if (spec_.model == "gpt2" || spec_.model == "whitespace") {
      TRY(MergedWords());
    } else if (spec_.model == "t5") {
      TRY(Unigram());
    } else {
      TRY(SentencePieceModel());
    }
    TRY(AddFrame());
    return json::serialize(out_);
  }

 private:
  Status CheckSizes() const {
    constexpr std::string_view kModels[] = {"gpt2", "whitespace", "llama", "gemma4", "t5"};
    if (std::ranges::find(kModels, spec_.model) == std::end(kModels)) {
      return Error(ErrorCode::kUnsupported,
                   "The vocabulary is of the kind \"" + spec_.model +
                       "\"; weft supports gpt2 (byte-level), whitespace (words alone), llama "
                       "(SentencePiece BPE), gemma4 (SentencePiece BPE with merges) and t5 "
                       "(Unigram).");
    }
    const size_t count = spec_.tokens.size();
    const auto wrong = [&](std::string_view what, size_t got) {
      return Error(ErrorCode::kInvalidData, "The vocabulary has " + std::to_string(count) +
                                                " tokens, but " + std::to_string(got) + " " +
                                                std::string(what) + ".");
    };
    if (count == 0 || count > (1u << 24)) {
      return wrong("is the count of them it can have", 1u << 24);
    }
    // Files with more of them than tokens are taken by llama.cpp, too.
    if (!spec_.types.empty() && spec_.types.size() < count) {
      return wrong("types", spec_.types.size());
    }
    if (!spec_.scores.empty() && spec_.scores.size() < count) {
      return wrong("scores", spec_.scores.size());
    }
    const bool needs_scores =
        spec_.model == "t5" || (spec_.model == "llama" && spec_.merges.empty());
    if (needs_scores && spec_.scores.empty()) return wrong("scores", 0);
    return OkStatus();
  }

  Status CheckScore(size_t id) const {
    if (std::isfinite(spec_.scores[id])) return OkStatus();
    return Error(ErrorCode::kInvalidData,
                 "The score of token " + std::to_string(id) + " is not finite.");
  }

  // What ends a turn is a control token whatever the file says: as text nobody could end with it.
  int32_t TypeOf(size_t id) const {
    if (EndsTurnByName(spec_.tokens[id])) return kControl;
    if (!spec_.types.empty()) return spec_.types[id];
    const auto named = static_cast<int32_t>(id);
    return named == spec_.bos_id || named == spec_.eos_id ? kControl : kNormal;
  }

  // Phi-3's own tokenizer.json takes white space behind these tokens away, which the files do not
  // say.
  bool StripsRight(size_t id) const {
    const std::string& text = spec_.tokens[id];
    return spec_.strips_behind_tokens && text != "<unk>" && text != "<s>" &&
           text != "<|endoftext|>";
  }

  Status AddTokens() {
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      const std::string& text = spec_.tokens[id];
      if (utf8::FindInvalid(text) != std::string_view::npos) {
        return Error(ErrorCode::kInvalidData,
                     "Token " + std::to_string(id) + " of the vocabulary is not valid UTF-8.");
      }
      if (text.empty() || !ids_.emplace(text, id).second) continue;
      vocabulary_[text] = id;
      const bool is_control = TypeOf(id) == kControl;
      const bool is_added = is_control || TypeOf(id) == kUserDefined || TypeOf(id) == kUnknown;
      if (!is_added || text.size() > kMaxMergedBytes) continue;
      added_.push_back(json::object{{"id", id},
                                    {"content", text},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", StripsRight(id)},
                                    {"normalized", false},
                                    {"special", TypeOf(id) != kUserDefined}});
    }
    return OkStatus();
  }

  // Words, as the pre-tokenizer's name says, of bytes or of characters.
  Status MergedWords() {
    ASSIGN_OR_RETURN(const NamedPreTokenizer pre, PreTokenizerNamed(spec_.pre));
    const bool drops_spaces = spec_.model == "whitespace";
    if (drops_spaces && !pre.is_text) {
      return Error(ErrorCode::kUnsupported,
                   "The vocabulary is of words alone (whitespace), but its pre-tokenizer is \"" +
                       spec_.pre + "\"; weft knows such vocabularies only with whitespace.");
    }
    add_bos_ = pre.add_bos;
    json::array steps;
    for (const std::string& pattern : pre.patterns) {
      steps.push_back(Split(pattern));
      if (!drops_spaces) continue;
      steps.back().as_object()["behavior"] = "Removed";  // of what is between the words
      steps.back().as_object()["invert"] = true;
    }
    ASSIGN_OR_RETURN(json::array merges, GivenMerges());
    if (pre.is_text) {
      AddText(pre.escapes_spaces);
      AddModel(std::move(merges), {{"byte_fallback", true}});
    } else {
      json::object bytes{{"type", "ByteLevel"},
                         {"add_prefix_space", false},
                         {"trim_offsets", false},
                         {"use_regex", false}};
      steps.push_back(bytes);
      out_["normalizer"] = nullptr;
      if (pre.nfc) out_["normalizer"] = {{"type", "NFC"}};
      out_["decoder"] = std::move(bytes);
      AddModel(std::move(merges), {{"ignore_merges", pre.ignore_merges}});
    }
    out_["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
    return OkStatus();
  }

  // What text becomes where the vocabulary is of characters.
  void AddText(bool escapes_spaces) {
    json::array normalizers, decoders;
    if (spec_.lowercase) {
      // Of one character one, which Lowercase gives but for this.
      normalizers.push_back(Replace("String", "\u0130", "i"));
      normalizers.push_back(json::object{{"type", "Lowercase"}});
    }
    if (escapes_spaces) {
      normalizers.push_back(Replace("String", " ", kSpace));
      decoders.push_back(Replace("String", kSpace, " "));
    }
    decoders.push_back(json::object{{"type", "ByteFallback"}});
    decoders.push_back(json::object{{"type", "Fuse"}});
    out_["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
    out_["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  }

  Result<json::array> GivenMerges() const {
    json::array merges;
    for (size_t i = 0; i < spec_.merges.size(); ++i) {
      const std::string& merge = spec_.merges[i];
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos || space + 1 >= merge.size()) {
        return Error(ErrorCode::kInvalidData, "Merge " + std::to_string(i) + " is \"" + merge +
                                                  "\", but must be \"left right\".");
      }
      const std::string left = merge.substr(0, space), right = merge.substr(space + 1);
      if (!ids_.contains(left) || !ids_.contains(right) || !ids_.contains(left + right)) {
        return Error(ErrorCode::kInvalidData,
                     "Merge " + std::to_string(i) + ", \"" + merge +
                         "\", is of tokens that are not in the vocabulary.");
      }
      merges.push_back(json::array{left, right});
    }
    return merges;
  }

  // Text with its spaces replaced; what no token spells is bytes.
  Status SentencePieceModel() {
    add_bos_ = true;
    const bool is_llama = spec_.model == "llama";
    const bool add_space = is_llama && spec_.add_space_prefix;
    // Scores beside merges are often indices: the merges say what is meant, if they fit.
    auto given = GivenMerges();
    const bool is_scored = is_llama && (spec_.merges.empty() || !given.ok());
    ASSIGN_OR_RETURN(json::array merges, is_scored ? ScoredMerges() : std::move(given));
    json::object options{{"fuse_unk", true}, {"byte_fallback", true}};
    const auto unknown = spec_.unknown_id;
    if (unknown && *unknown >= 0 && static_cast<size_t>(*unknown) < spec_.tokens.size()) {
      options["unk_token"] = spec_.tokens[static_cast<size_t>(*unknown)];
    }
    AddModel(std::move(merges), std::move(options));
    json::array normalizers, decoders;
    if (add_space) {
      normalizers.push_back(json::object{{"type", "Prepend"}, {"prepend", kSpace}});
    }
    normalizers.push_back(
        json::object{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
    decoders.push_back(
        json::object{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}});
    decoders.push_back(json::object{{"type", "ByteFallback"}});
    decoders.push_back(json::object{{"type", "Fuse"}});
    if (add_space) {
      decoders.push_back(
          json::object{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    out_["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
    out_["pre_tokenizer"] = nullptr;
    out_["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
    return OkStatus();
  }

  // Any two neighbours that together are a token merge; the better the token's score, the sooner.
  Result<json::array> ScoredMerges() const {
    if (spec_.scores.empty()) return GivenMerges();  // says what is wrong with them
    struct Merge {
      size_t id;
      size_t cut;  // bytes of the left token
    };
    std::vector<Merge> merges;
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      const std::string& text = spec_.tokens[id];
      TRY(CheckScore(id));
      if (!Merges(id) || text.size() > kMaxMergedBytes) continue;
      for (size_t at = 0; at < text.size();) {
        at += utf8::LengthOf(text[at]);
        if (at < text.size() && MergesText(text.substr(0, at)) && MergesText(text.substr(at))) {
          merges.push_back({id, at});
        }
      }
    }
    std::stable_sort(merges.begin(), merges.end(), [&](const Merge& a, const Merge& b) {
      return spec_.scores[a.id] > spec_.scores[b.id];
    });
    json::array pairs;
    for (const Merge& merge : merges) {
      const std::string& text = spec_.tokens[merge.id];
      pairs.push_back(json::array{text.substr(0, merge.cut), text.substr(merge.cut)});
    }
    return pairs;
  }

  bool MergesText(const std::string& text) const {
    const auto found = ids_.find(text);
    return found != ids_.end() && Merges(found->second);
  }
  bool Merges(size_t id) const {
    const int32_t type = TypeOf(id);
    return type != kUnknown && type != kControl && type != kByte;
  }

  void AddModel(json::array merges, json::object options) {
    json::object model{{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false}};
    for (auto& option : options) model[option.key()] = option.value();
    model["vocab"] = std::move(vocabulary_);
    model["merges"] = std::move(merges);
    out_["model"] = std::move(model);
  }

  // As llama.cpp reads "t5": tokens that are control tokens, bytes or unknown match no text, those
  // that users added cost nothing, and only normal ones say how much an unknown character costs.
  Status Unigram() {
    json::array vocab, unmatched;
    float lowest = std::numeric_limits<float>::max();
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      TRY(CheckScore(id));
      const int32_t type = TypeOf(id);
      if (type == kNormal) lowest = std::min(lowest, spec_.scores[id]);
      if (!Merges(id) || spec_.tokens[id].size() > kMaxMergedBytes) unmatched.push_back(id);
      vocab.push_back(
          json::array{spec_.tokens[id], type == kUserDefined ? 0.0 : double{spec_.scores[id]}});
    }
    const int32_t unknown = spec_.unknown_id.value_or(2);
    if (unknown < 0 || static_cast<size_t>(unknown) >= spec_.tokens.size()) {
      return Error(ErrorCode::kInvalidData, "The vocabulary's unknown token is " +
                                                std::to_string(unknown) + ", but ids are 0 to " +
                                                std::to_string(spec_.tokens.size() - 1) + ".");
    }
    out_["model"] = {{"type", "Unigram"},
                     {"unk_id", unknown},
                     {"vocab", std::move(vocab)},
                     {"byte_fallback", false},
                     {"unknown_score", double{lowest - 10.0f}},
                     {"unmatched", std::move(unmatched)}};
    AddUnigramText();
    add_eos_ = true;
    return OkStatus();
  }

  void AddUnigramText() {
    json::array normalizers;
    if (!spec_.charsmap.empty()) {
      normalizers.push_back(json::object{{"type", "Precompiled"},
                                         {"precompiled_charsmap", ToBase64(spec_.charsmap)},
                                         {"longest_match", true}});
    }
    if (spec_.remove_extra_spaces) {
      normalizers.push_back(Replace("Regex", R"(\A +| +\z)", ""));
      normalizers.push_back(Replace("Regex", " {2,}", " "));
    }
    // Words begin with a space, and text of spaces alone has no word.
    if (spec_.add_space_prefix || spec_.remove_extra_spaces) {
      normalizers.push_back(Replace("Regex", R"(\A(?= *[^ ]))", " "));
    }
    normalizers.push_back(Replace("String", " ", kSpace));
    out_["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
    out_["pre_tokenizer"] = nullptr;
    json::array decoders{Replace("String", kSpace, " "), json::object{{"type", "ByteFallback"}},
                         json::object{{"type", "Fuse"}}};
    if (spec_.add_space_prefix) {
      decoders.push_back(
          json::object{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    out_["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  }

  // What is put around a text.
  Status AddFrame() {
    json::array single{json::object{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}};
    json::object names;
    const auto add = [&](std::string_view name, const std::optional<int32_t>& id, bool wanted,
                         bool before) -> Status {
      if (!id) return OkStatus();
      if (*id < 0 || static_cast<size_t>(*id) >= spec_.tokens.size()) {
        return Error(ErrorCode::kInvalidData,
                     "The vocabulary's " + std::string(name) + " token is " + std::to_string(*id) +
                         ", but ids are 0 to " + std::to_string(spec_.tokens.size() - 1) + ".");
      }
      const std::string& text = spec_.tokens[static_cast<size_t>(*id)];
      if (!wanted || text.empty()) return OkStatus();
      const json::object item{{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
      single.insert(before ? single.begin() : single.end(), item);
      names[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
      return OkStatus();
    };
    TRY(add("bos", spec_.bos_id, spec_.add_bos.value_or(add_bos_), true));
    TRY(add("eos", spec_.eos_id, spec_.add_eos.value_or(add_eos_), false));
    json::array pair = single;
    for (json::value item : single) {
      for (auto& part : item.as_object()) part.value().as_object()["type_id"] = 1;
      if (item.as_object().contains("Sequence")) item.at("Sequence").as_object()["id"] = "B";
      pair.push_back(std::move(item));
    }
    out_["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", std::move(single)},
                              {"pair", std::move(pair)},
                              {"special_tokens", std::move(names)}};
    return OkStatus();
  }

  const VocabularySpec& spec_;
  std::unordered_map<std::string, size_t> ids_;
  json::object out_, vocabulary_;
  json::array added_;
  bool add_bos_ = false, add_eos_ = false;
};

}  // namespace

Result<std::string> TokenizerJson(const VocabularySpec& spec) {
  return TokenizerWriter(spec).Run();
}

}  // namespace weft
