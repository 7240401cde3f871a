// What filters, tests and methods share, and the functions.
#include "text/jinja/library.h"

#include <algorithm>

#include "base/clock.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

// Python's sandbox stops range() there too.
constexpr int64_t kMaxRange = 100'000;

Result<Value> Range(Evaluator& evaluator, const CallArguments& arguments) {
  int64_t bounds[3] = {0, 0, 1};
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3 || !arguments.named.empty()) {
    return Refuse("range() takes 1 to 3 numbers.");
  }
  for (size_t i = 0; i < count; ++i) {
    const Value& value = arguments.positional[i];
    if (!value.IsWhole()) {
      return Refuse("range() takes integers, not " + std::string(value.KindName()) + ".");
    }
    bounds[count == 1 ? 1 : i] = Clamped(value.AsInteger());
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
  ASSIGN_OR_RETURN(Value range, evaluator.MakeArray(std::move(items), ArrayData::Form::kRange));
  range.array()->range_text = "range(" + std::to_string(start) + ", " + std::to_string(stop) +
                              (step == 1 ? ")" : ", " + std::to_string(step) + ")");
  return range;
}

Result<Value> ObjectOfArguments(Evaluator& evaluator, const CallArguments& arguments,
                                bool is_namespace) {
  auto object = std::make_shared<ObjectData>();
  if (arguments.positional.size() > 1) {
    return Refuse("dict() and namespace() of the chat template take one object.");
  }
  for (const Value& source : arguments.positional) {
    if (source.Is(Value::Kind::kObject)) {
      object->has_quoted_keys = source.object()->has_quoted_keys;
      for (const auto& [key, value] : source.object()->entries()) object->Set(key, value);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<Value> pairs, IterableItems(evaluator, source));
    for (const Value& pair : pairs) {
      ASSIGN_OR_RETURN(const std::vector<Value> parts, IterableItems(evaluator, pair));
      if (parts.size() != 2) {
        return Refuse("dict() and namespace() take an object, or pairs of a name and a value.");
      }
      TRY(SetField(*object, parts[0], parts[1]));
    }
  }
  for (const auto& [key, value] : arguments.named) object->Set(key, value);
  return evaluator.MakeObject(std::move(object), is_namespace);
}

Value MakeFunction(std::string name,
                   std::function<Result<Value>(Evaluator&, const CallArguments&)> call,
                   std::function<Value(std::string_view)> attribute = nullptr) {
  auto function = std::make_shared<FunctionData>();
  function->name = std::move(name);
  function->call = std::move(call);
  function->attribute = std::move(attribute);
  return Value::Function(std::move(function));
}

// cycler('a', 'b'): next() goes through the values again and again.
Result<Value> MakeCycler(Evaluator&, const CallArguments& arguments) {
  struct State {
    std::vector<Value> values;
    size_t at = 0;
    Value next, reset;
  };
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return Refuse("cycler() of the chat template needs at least one value.");
  }
  auto state = std::make_shared<State>();
  state->values = arguments.positional;
  // The state holds the two functions, so they must not hold it.
  const std::weak_ptr<State> weak = state;
  state->next = MakeFunction("next", [weak](Evaluator&, const CallArguments&) -> Result<Value> {
    const std::shared_ptr<State> cycler = weak.lock();
    if (!cycler) return Refuse("The chat template uses a cycler that is gone.");
    const size_t at = cycler->at;
    cycler->at = (at + 1) % cycler->values.size();
    return cycler->values[at];
  });
  state->reset = MakeFunction("reset", [weak](Evaluator&, const CallArguments&) -> Result<Value> {
    if (const std::shared_ptr<State> cycler = weak.lock()) cycler->at = 0;
    return Value::MakeNone();
  });
  return MakeFunction(
      "cycler",
      [](Evaluator&, const CallArguments&) -> Result<Value> {
        return Refuse("A cycler of the chat template cannot be called; it has next().");
      },
      [state](std::string_view name) {
        if (name == "current") return state->values[state->at];
        if (name == "next") return state->next;
        return name == "reset" ? state->reset : Value();
      });
}

// joiner(', '): nothing when it is called for the first time, then the separator.
Result<Value> MakeJoiner(Evaluator&, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const Given given, BindArguments("joiner", "sep", arguments));
  const Value separator = given[0] == nullptr ? Value::String(", ") : *given[0];
  return MakeFunction("joiner",
                      [separator, used = std::make_shared<bool>(false)](
                          Evaluator&, const CallArguments&) -> Result<Value> {
                        return std::exchange(*used, true) ? separator : Value::String("");
                      });
}

Result<Value> RaiseException(Evaluator&, const CallArguments& arguments) {
  const Value* message =
      arguments.positional.empty() ? arguments.Named("message") : &arguments.positional[0];
  std::string reason = "no reason given";
  if (message != nullptr) {
    ASSIGN_OR_RETURN(const Text text, ToText(*message));
    reason = text.bytes();
  }
  return Error(ErrorCode::kInvalidArgument,
               "The model's chat template refuses this request: " + reason);
}

Result<Value> StrftimeNow(Evaluator& evaluator, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const Given given, BindArguments("strftime_now", "!format", arguments));
  ASSIGN_OR_RETURN(const Text format, TextArgument(given[0], "strftime_now()"));
  const int64_t now = evaluator.local_now_s() ? *evaluator.local_now_s() : LocalWallClockSeconds();
  ASSIGN_OR_RETURN(std::string text, FormatTime(format.bytes(), now));
  return evaluator.MakeString(Text(std::move(text), format.has_quoted()));
}

using FunctionEntry = Named<Result<Value> (*)(Evaluator&, const CallArguments&)>;
constexpr FunctionEntry kFunctions[] = {
    {"range", "*", Range},
    {"namespace", "*",
     [](Evaluator& e, const CallArguments& a) { return ObjectOfArguments(e, a, true); }},
    {"dict", "*",
     [](Evaluator& e, const CallArguments& a) { return ObjectOfArguments(e, a, false); }},
    {"cycler", "*", MakeCycler},
    {"joiner", "*", MakeJoiner},
    {"raise_exception", "*", RaiseException},
    {"strftime_now", "*", StrftimeNow}};

}  // namespace

void AddFunctions(Evaluator& evaluator) {
  for (const FunctionEntry& entry : kFunctions) {
    evaluator.SetGlobal(entry.name, MakeFunction(std::string(entry.name), entry.run));
  }
}

bool IsFunctionName(std::string_view name) {
  return FindIn(kFunctions, name) != nullptr;
}

Result<Given> BindArguments(std::string_view name, std::string_view parameters,
                            const CallArguments& arguments) {
  Given given(arguments);
  if (parameters == "*") return given;
  const auto refuse = [&](const std::string& what) {
    return Refuse("'" + std::string(name) + "' of the chat template " + what + ".");
  };
  const bool by_position = parameters.starts_with('/');
  if (by_position) parameters.remove_prefix(1);
  size_t count = 0;
  size_t used = 0;
  for (; !parameters.empty(); ++count) {
    const size_t end = std::min(parameters.find(','), parameters.size());
    std::string_view parameter = parameters.substr(0, end);
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
    const bool needed = parameter.starts_with('!');
    if (needed) parameter.remove_prefix(1);
    const Value* value = by_position ? nullptr : arguments.Named(parameter);
    if (value != nullptr) ++used;
    if (count < arguments.positional.size()) {
      if (value != nullptr) return refuse("gets '" + std::string(parameter) + "' twice");
      value = &arguments.positional[count];
    }
    if (value == nullptr && needed) return refuse("needs '" + std::string(parameter) + "'");
    given.Set(count, value);
  }
  if (arguments.positional.size() > count) {
    return refuse("takes at most " + std::to_string(count) + " arguments, not " +
                  std::to_string(arguments.positional.size()));
  }
  if (used < arguments.named.size()) {
    return refuse("has no argument '" + arguments.named.back().first + "' by name");
  }
  return given;
}

Result<Text> TextArgument(const Value* given, std::string_view what) {
  if (given != nullptr && given->IsString()) return given->text();
  return Refuse(std::string(what) + " of the chat template needs a string, but got " +
                (given == nullptr ? "nothing" : std::string(given->KindName())) + ".");
}

Result<int64_t> IntegerArgument(const Value* given, int64_t fallback, std::string_view what,
                                bool none_is_absent) {
  if (given == nullptr || (none_is_absent && given->IsNone())) return fallback;
  if (given->IsWhole()) return Clamped(given->AsInteger());
  return Refuse(std::string(what) + " of the chat template needs an integer, but got " +
                std::string(given->KindName()) + ".");
}

Text StripText(const Text& stripped_text, bool left, bool right, const std::string* characters) {
  const std::string_view text = stripped_text.bytes();
  const auto stripped = [&](size_t begin, size_t end) {
    if (characters != nullptr) {
      return characters->find(text.substr(begin, end - begin)) != std::string::npos;
    }
    size_t at = begin;
    return python::IsSpace(utf8::Next(text, at));
  };
  size_t begin = 0;
  size_t end = text.size();
  while (left && begin < end && stripped(begin, begin + utf8::LengthOf(text[begin]))) {
    begin += utf8::LengthOf(text[begin]);
  }
  while (right && end > begin && stripped(utf8::Previous(text, end), end)) {
    end = utf8::Previous(text, end);
  }
  return stripped_text.Part(begin, end);
}

Result<Text> ReplaceAll(Evaluator& evaluator, const Text& text, std::string_view from,
                        const Text& to, int64_t count) {
  const std::string_view bytes = text.bytes();
  Text out;
  const auto put = [&]() -> Status {
    TRY(evaluator.Charge(1 + to.size() / 16));
    out.Append(to);
    if (out.size() > (size_t{1} << 30)) return Refuse("The chat template makes a string too long.");
    return OkStatus();
  };
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  size_t done = 0;
  if (from.empty()) {  // before every character and at the end
    for (; left > 0; --left) {
      TRY(put());
      if (done == bytes.size()) break;
      const size_t next = done + utf8::LengthOf(bytes[done]);
      out.AppendPart(text, done, next);
      done = next;
    }
  } else {
    for (size_t at = bytes.find(from); at != std::string_view::npos && left > 0;
         at = bytes.find(from, done), --left) {
      out.AppendPart(text, done, at);
      TRY(put());
      done = at + from.size();
    }
  }
  out.AppendPart(text, done, bytes.size());
  return out;
}

std::vector<Text> LinesOf(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = at;
    const uint32_t c = utf8::Next(bytes, at);
    if (!python::EndsLine(c)) continue;
    if (c == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    lines.push_back(text.Part(begin, keep_ends ? at : end));
    begin = at;
  }
  if (begin < bytes.size()) lines.push_back(text.Part(begin, bytes.size()));
  return lines;
}

Text EscapeHtml(const Text& text) {
  if (text.is_markup()) return text;
  Text escaped = ChangedInParts(text, [](std::string_view part) {
    std::string html;
    for (const char c : part) {
      switch (c) {
        case '&':
          html += "&amp;";
          break;
        case '<':
          html += "&lt;";
          break;
        case '>':
          html += "&gt;";
          break;
        case '"':
          html += "&#34;";
          break;
        case '\'':
          html += "&#39;";
          break;
        default:
          html.push_back(c);
      }
    }
    return html;
  });
  escaped.set_markup(true);
  return escaped;
}

}  // namespace weft::jinja
