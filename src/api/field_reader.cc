#include "api/field_reader.h"

#include <algorithm>
#include <boost/json/stream_parser.hpp>
#include <charconv>
#include <cmath>

#include "api/request_fields.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr size_t kMostStops = 16;
constexpr size_t kMostStopBytes = 1024;
// A text in a file of Windows begins with it, and so do bodies that its tools send.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

// As one would write it: JSON's would be 2E0.
std::string TextOf(const sampling::Range& range) {
  const auto text = [](double number) {
    char digits[32];
    return std::string(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
  };
  return "a number from " + text(range.lowest) + " to " + text(range.highest);
}

ApiResult<json::object> ParseBody(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  json::parse_options options;
  options.max_depth = kMaxBodyDepth;
  json::stream_parser parser({}, options);
  boost::system::error_code error;
  const size_t taken = parser.write(text.data(), text.size(), error);
  if (!error) parser.finish(error);
  if (error == json::error::too_deep) {
    return RefuseField("",
                       "The body is nested more than " + std::to_string(kMaxBodyDepth) + " deep.");
  }
  if (error) {
    return RefuseField("", "The body is not valid JSON: " + error.message() + " at byte " +
                               std::to_string(taken) + " of " + std::to_string(text.size()) + ".");
  }
  json::value document = parser.release();
  if (!document.is_object()) return RefuseField("", "The body must be a JSON object.");
  return std::move(document.as_object());
}

void FieldReader::Fail(const std::string& name, const json::value& value,
                       const std::string& expected) {
  if (error_) return;
  const std::string whole = prefix_ + name;
  error_ = RefuseField(whole,
                       "'" + whole + "' is " + ShownValue(value) + "; expected " + expected + ".");
}

void FieldReader::FailMissing(const std::string& name, const std::string& expected) {
  const std::string whole = prefix_ + name;
  Fail(RefuseField(whole, "'" + whole + "' is missing; expected " + expected + "."));
}

bool FieldReader::Bool(const char* name, bool if_absent) {
  const json::value* value = Find(name);
  if (value == nullptr) return if_absent;
  if (!value->is_bool()) return Fail(name, *value, "true or false"), if_absent;
  return value->as_bool();
}

std::optional<double> FieldReader::Number(const char* name, sampling::Range range) {
  const json::value* value = Find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->to_number<double>() : std::nan("");
  if (!(number >= range.lowest && number <= range.highest)) {
    Fail(name, *value, TextOf(range));
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> FieldReader::Integer(const char* name, int64_t lowest, int64_t highest) {
  const json::value* value = Find(name);
  if (value == nullptr) return std::nullopt;
  boost::system::error_code not_integer;
  const auto number = value->is_number() ? value->to_number<int64_t>(not_integer) : 0;
  if (!value->is_number() || not_integer || number < lowest || number > highest) {
    Fail(name, *value,
         "an integer from " + std::to_string(lowest) + " to " + std::to_string(highest));
    return std::nullopt;
  }
  return number;
}

std::string FieldReader::Model() {
  const json::value* model = Find("model");
  if (model == nullptr) return "";
  if (model->is_string()) return std::string(model->as_string());
  Fail("model", *model, "the name of a model, which GET /v1/models lists");
  return "";
}

std::vector<std::string> FieldReader::Stop(const char* name) {
  std::vector<std::string> texts;
  const json::value* stop = Find(name);
  if (stop == nullptr) return texts;
  json::array list;
  if (stop->is_string()) {
    list.push_back(*stop);
  } else if (stop->is_array()) {
    list = stop->as_array();
  }
  const auto is_other = [](const json::value& item) {
    return !item.is_string() || item.as_string().empty() ||
           item.as_string().size() > kMostStopBytes;
  };
  const auto* const other = std::find_if(list.begin(), list.end(), is_other);
  if (other != list.end() || list.size() > kMostStops || (list.empty() && !stop->is_array())) {
    const std::string whole = prefix_ + name;
    Fail(RefuseField(
        whole, "'" + whole + "' " +
                   (other != list.end() ? "has " + ShownValue(*other) : "is " + ShownValue(*stop)) +
                   "; expected a string or at most " + std::to_string(kMostStops) +
                   " non-empty strings of at most " + std::to_string(kMostStopBytes) + " bytes."));
    return texts;
  }
  for (const json::value& item : list) texts.emplace_back(item.as_string());
  return texts;
}

}  // namespace weft::api
