#include "convert/source/json_reader.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <cmath>
#include <iterator>
#include <set>

namespace weft::convert {
namespace {

namespace json = boost::json;

constexpr size_t kMaxDepth = 32;

// Boost.JSON keeps the last of two equal keys; two readers that disagree about which one counts are
// how checks are walked around, so equal keys are refused. A handler of its event parser.
class DuplicateKeyFinder {
 public:
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;

  const std::optional<std::string>& duplicate() const { return duplicate_; }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) {
    keys_.emplace_back();
    return true;
  }
  bool on_object_end(size_t, json::error_code&) {
    keys_.pop_back();
    return true;
  }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(size_t, json::error_code&) { return true; }
  bool on_key_part(json::string_view part, size_t, json::error_code&) {
    key_.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, size_t, json::error_code& failure) {
    key_.append(part.data(), part.size());
    if (!keys_.back().insert(key_).second) {
      duplicate_ = key_;
      failure = json::error::extra_data;  // any error stops the parser
      return false;
    }
    key_.clear();
    return true;
  }
  bool on_string_part(json::string_view, size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, size_t, json::error_code&) { return true; }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(int64_t, json::string_view, json::error_code&) { return true; }
  bool on_uint64(uint64_t, json::string_view, json::error_code&) { return true; }
  bool on_double(double, json::string_view, json::error_code&) { return true; }
  bool on_bool(bool, json::error_code&) { return true; }
  bool on_null(json::error_code&) { return true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::string key_;
  std::optional<std::string> duplicate_;
};

std::string RangeText(double least, double most) {
  char text[80];
  std::snprintf(text, sizeof(text), "a number from %g to %g", least, most);
  return text;
}

}  // namespace

std::string Excerpt(const json::value& value) {
  std::string text = json::serialize(value);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

std::string Printable(std::string_view name) {
  std::string text(name.substr(0, 160));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (name.size() > 160) text += "...";
  return text;
}

std::string ReplacePythonNumbers(std::string_view text) {
  constexpr std::string_view kWords[] = {"Infinity", "-Infinity", "NaN"};
  std::string replaced;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const auto* word = std::ranges::find_if(
        kWords, [&](std::string_view w) { return !in_string && rest.starts_with(w); });
    if (word != std::end(kWords)) {
      replaced.append(R"({"__float__": ")").append(*word).append(R"("})");
      i += word->size();
      continue;
    }
    // A character behind a backslash ends no string.
    const size_t count = in_string && rest[0] == '\\' && rest.size() > 1 ? 2 : 1;
    if (rest[0] == '"') in_string = !in_string;
    replaced.append(rest.substr(0, count));
    i += count;
  }
  return replaced;
}

Result<json::value> ParseJson(std::string_view text, const std::string& what) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  const json::string_view input(text.data(), text.size());
  json::error_code failure;
  json::value value;
  try {
    json::basic_parser<DuplicateKeyFinder> finder(options);
    finder.write_some(false, input.data(), input.size(), failure);
    if (finder.handler().duplicate()) {
      return Error(ErrorCode::kInvalidData,
                   what + " has the key '" + Printable(*finder.handler().duplicate()) + "' twice.");
    }
    failure = {};
    value = json::parse(input, failure, json::storage_ptr(), options);
  } catch (const std::exception& thrown) {  // out of memory
    return Error(ErrorCode::kInvalidData, what + " cannot be parsed: " + thrown.what() + ".");
  }
  if (failure) {
    return Error(ErrorCode::kInvalidData, what + " is not JSON that nests at most " +
                                              std::to_string(kMaxDepth) + " deep (" +
                                              failure.message() + ").");
  }
  return value;
}

const json::value* JsonReader::Find(std::string_view key) const {
  const json::value* value = object_->if_contains(json::string_view(key.data(), key.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

Error JsonReader::Missing(std::string_view key) const {
  return Error(ErrorCode::kInvalidData, what_ + " has no '" + std::string(key) + "'.");
}

Error JsonReader::Wrong(std::string_view key, const json::value& value,
                        const std::string& expected) const {
  return Error(ErrorCode::kInvalidData, "'" + std::string(key) + "' in " + what_ + " is " +
                                            Excerpt(value) + "; expected " + expected + ".");
}

Result<uint64_t> JsonReader::Whole(std::string_view key, uint64_t least, uint64_t most,
                                   std::optional<uint64_t> if_absent) const {
  const json::value* value = Find(key);
  if (value == nullptr && if_absent) return *if_absent;
  if (value == nullptr) return Missing(key);
  json::error_code failure;
  const uint64_t number = value->is_number() ? value->to_number<uint64_t>(failure) : 0;
  if (!value->is_number() || failure || number < least || number > most) {
    return Wrong(key, *value,
                 "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

Result<double> JsonReader::Real(std::string_view key, double least, double most,
                                std::optional<double> if_absent) const {
  const json::value* value = Find(key);
  if (value == nullptr && if_absent) return *if_absent;
  if (value == nullptr) return Missing(key);
  json::error_code failure;
  const double number = value->is_number() ? value->to_number<double>(failure) : 0;
  const bool fits = value->is_number() && !failure && number >= least && number <= most;
  if (!fits) return Wrong(key, *value, RangeText(least, most));
  return number;
}

Result<bool> JsonReader::Bool(std::string_view key, bool if_absent) const {
  const json::value* value = Find(key);
  if (value == nullptr) return if_absent;
  if (!value->is_bool()) return Wrong(key, *value, "true or false");
  return value->get_bool();
}

Result<std::string> JsonReader::Text(std::string_view key,
                                     std::optional<std::string> if_absent) const {
  const json::value* value = Find(key);
  if (value == nullptr && if_absent) return *if_absent;
  if (value == nullptr) return Missing(key);
  if (!value->is_string()) return Wrong(key, *value, "a string");
  return std::string(value->get_string());
}

Result<const json::object*> JsonReader::Object(std::string_view key) const {
  const json::value* value = Find(key);
  if (value == nullptr) return static_cast<const json::object*>(nullptr);
  if (!value->is_object()) return Wrong(key, *value, "an object");
  return &value->get_object();
}

Result<const json::array*> JsonReader::Array(std::string_view key) const {
  const json::value* value = Find(key);
  if (value == nullptr) return static_cast<const json::array*>(nullptr);
  if (!value->is_array()) return Wrong(key, *value, "an array");
  return &value->get_array();
}

}  // namespace weft::convert
