// What filters, tests and methods share, and the functions.
#include "text/jinja/library.h"

#include "base/clock.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

// Python's sandbox stops range() there too.
constexpr int64_t kMaxRange = 100'000;

Result<Value> Range(Evaluator& evaluator, const CallArguments& arguments) {
  int64_t bounds[3] = {0, 0, 1};
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3) return Refuse("range() takes 1 to 3 numbers.");
  for (size_t i = 0; i < count; ++i) {
    const Value& value = arguments.positional[i];
    if (!value.Is(Value::Kind::kInteger) && !value.Is(Value::Kind::kBool)) {
      return Refuse("range() takes integers, not " + std::string(value.KindName()) + ".");
    }
    bounds[count == 1 ? 1 : i] = value.AsInteger();
  }
  const auto [start, stop, step] = std::tuple(bounds[0], bounds[1], bounds[2]);
  if (step == 0) return Refuse("range() has a step of 0.");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) {
      return Refuse("range() has more than " + std::to_string(kMaxRange) + " numbers.");
    }
    items.push_back(Value::Integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return evaluator.MakeArray(std::move(items));
}

Result<Value> ObjectOfArguments(Evaluator& evaluator, const CallArguments& arguments,
                                bool is_namespace) {
  auto object = std::make_shared<ObjectData>();
  for (const Value& source : arguments.positional) {
    if (source.Is(Value::Kind::kObject)) {
      for (const auto& [key, value] : source.object()->entries()) object->Set(key, value);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<Value> pairs, IterableItems(evaluator, source));
    for (const Value& pair : pairs) {
      if (!pair.IsArray() || pair.items().size() != 2 || !pair.items()[0].IsString()) {
        return Refuse("dict() and namespace() take an object, or pairs of a name and a value.");
      }
      object->Set(pair.items()[0].string(), pair.items()[1]);
    }
  }
  for (const auto& [key, value] : arguments.named) object->Set(key, value);
  return evaluator.MakeObject(std::move(object), is_namespace);
}

Result<Value> RaiseException(Evaluator&, const CallArguments& arguments) {
  const Value* message = arguments.Get(0, "message");
  const bool has_text = message != nullptr && message->IsString();
  return Error(ErrorCode::kInvalidArgument,
               "The model's chat template refuses this request: " +
                   (has_text ? message->string() : std::string("no reason given")));
}

Result<Value> StrftimeNow(Evaluator& evaluator, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string format,
                   TextArgument(arguments, 0, "format", "strftime_now()"));
  const int64_t now = evaluator.local_now_s() ? *evaluator.local_now_s() : LocalWallClockSeconds();
  ASSIGN_OR_RETURN(std::string text, FormatTime(format, now));
  return evaluator.MakeString(std::move(text));
}

}  // namespace

void AddFunctions(Evaluator& evaluator) {
  const auto add = [&](std::string name, auto call) {
    auto function = std::make_shared<FunctionData>();
    function->name = name;
    function->call = call;
    evaluator.SetGlobal(name, Value::Function(std::move(function)));
  };
  add("range", Range);
  add("namespace",
      [](Evaluator& e, const CallArguments& a) { return ObjectOfArguments(e, a, true); });
  add("dict", [](Evaluator& e, const CallArguments& a) { return ObjectOfArguments(e, a, false); });
  add("raise_exception", RaiseException);
  add("strftime_now", StrftimeNow);
}

Result<std::string> TextArgument(const CallArguments& arguments, size_t index,
                                 std::string_view name, std::string_view what) {
  const Value* value = arguments.Get(index, name);
  if (value != nullptr && value->IsString()) return value->string();
  return Refuse(std::string(what) + " of a chat template needs a string for " + std::string(name) +
                ", but got " + (value == nullptr ? "nothing" : std::string(value->KindName())) +
                ".");
}

Result<int64_t> IntegerArgument(const CallArguments& arguments, size_t index, std::string_view name,
                                int64_t fallback, std::string_view what) {
  const Value* value = arguments.Get(index, name);
  if (value == nullptr || value->IsNone()) return fallback;
  if (value->Is(Value::Kind::kInteger) || value->Is(Value::Kind::kBool)) return value->AsInteger();
  return Refuse(std::string(what) + " of a chat template needs an integer for " +
                std::string(name) + ", but got " + std::string(value->KindName()) + ".");
}

bool FlagArgument(const CallArguments& arguments, size_t index, std::string_view name,
                  bool fallback) {
  const Value* value = arguments.Get(index, name);
  return value == nullptr ? fallback : value->Truthy();
}

std::string StripText(std::string_view text, bool left, bool right, const std::string* characters) {
  const auto stripped = [&](size_t begin, size_t end) {
    if (characters != nullptr) {
      return characters->find(text.substr(begin, end - begin)) != std::string::npos;
    }
    size_t at = begin;
    return utf8::IsWhiteSpace(utf8::Next(text, at));
  };
  size_t begin = 0;
  size_t end = text.size();
  while (left && begin < end && stripped(begin, begin + utf8::LengthOf(text[begin]))) {
    begin += utf8::LengthOf(text[begin]);
  }
  while (right && end > begin && stripped(utf8::Previous(text, end), end)) {
    end = utf8::Previous(text, end);
  }
  return std::string(text.substr(begin, end - begin));
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = utf8::LengthOf(text[0]);
  return utf8::Upper(text.substr(0, first)) + utf8::Lower(text.substr(first));
}

Result<std::string> ReplaceAll(Evaluator& evaluator, std::string_view text, std::string_view from,
                               std::string_view to, int64_t count) {
  std::string out;
  const auto put = [&]() -> Status {
    TRY(evaluator.Charge(1 + to.size() / 16));
    out += to;
    if (out.size() > (size_t{1} << 30)) return Refuse("The chat template makes a string too long.");
    return OkStatus();
  };
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  if (from.empty()) {  // between all characters
    for (size_t at = 0; at <= text.size() && left > 0; --left) {
      TRY(put());
      if (at == text.size()) return out;
      const size_t length = utf8::LengthOf(text[at]);
      out += text.substr(at, length);
      at += length;
      if (left == 1) return out += text.substr(at);
    }
    return out.empty() ? std::string(text) : out;
  }
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string_view::npos && left > 0;
       at = text.find(from, done), --left) {
    out += text.substr(done, at - done);
    TRY(put());
    done = at + from.size();
  }
  out += text.substr(done);
  return out;
}

}  // namespace weft::jinja
