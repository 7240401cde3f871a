#include "onnx/decoder_io.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "onnx/validate.h"

namespace weft::onnx {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A number in a name: "kv_fp16.7.key" has 16, behind a letter, and 7.
struct Digits {
  int value = 0;
  bool is_behind_letter = false;
};

// The name with its numbers taken out, and these; nothing that is no layer's number is one.
std::vector<Digits> TakeDigits(std::string_view name, std::string* rest) {
  constexpr int kMostNumber = 1'000'000;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<Digits> numbers;
  for (size_t i = 0; i < name.size();) {
    if (!is_digit(name[i])) {
      *rest += name[i++];
      continue;
    }
    Digits digits;
    const char before = i == 0 ? '.' : name[i - 1];
    digits.is_behind_letter = (before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z');
    const size_t begin = i;
    for (; i < name.size() && is_digit(name[i]); ++i) {
      if (digits.value <= kMostNumber) digits.value = digits.value * 10 + (name[i] - '0');
    }
    if (digits.value > kMostNumber) {
      *rest += name.substr(begin, i - begin);
      continue;
    }
    *rest += '#';
    numbers.push_back(digits);
  }
  return numbers;
}

bool HasNumber(std::string_view name) {
  std::string rest;
  return !TakeDigits(name, &rest).empty();
}

// The layer of each state by its name: "past_key_values.7.key", "past_7", "kv_fp16.7.key". Of the
// numbers that names of one form have, it is the one that differs most between them; where several
// do, or none, one that does not belong to a word before it, and then the first.
std::map<std::string, int> LayersByName(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::pair<std::string, std::vector<Digits>>>> forms;
  for (const std::string& name : names) {
    std::string form;
    std::vector<Digits> numbers = TakeDigits(name, &form);
    forms[form].emplace_back(name, std::move(numbers));
  }
  std::map<std::string, int> layers;
  for (const auto& [form, members] : forms) {
    const size_t count = members.front().second.size();
    size_t best = 0;
    std::pair<size_t, bool> best_rank;
    for (size_t at = 0; at < count; ++at) {
      std::set<int> values;
      for (const auto& [name, numbers] : members) values.insert(numbers[at].value);
      const std::pair rank(values.size(), !members.front().second[at].is_behind_letter);
      if (at > 0 && rank <= best_rank) continue;
      best_rank = rank;
      best = at;
    }
    for (const auto& [name, numbers] : members) layers[name] = numbers[best].value;
  }
  return layers;
}

bool LooksLikeState(const ValueInfo& value, bool is_input) {
  if (!HasNumber(value.name)) return false;
  const bool integers = value.type == ElementType::kInt64 || value.type == ElementType::kInt32 ||
                        value.type == ElementType::kBool;
  if (integers) return false;
  for (const std::string_view word : {"cache", "state", "conv", "recurrent"}) {
    if (Contains(value.name, word)) return true;
  }
  if (is_input) return Contains(value.name, "past");
  return Contains(value.name, "present") || Contains(value.name, "past") ||
         Contains(value.name, "updated");
}

Error NotADecoder(std::string sentence) {
  return Error(ErrorCode::kUnsupported, std::move(sentence));
}

}  // namespace

Result<DecoderIo> FindDecoderIo(const Graph& graph) {
  DecoderIo io;
  std::vector<std::string> inputs, outputs;
  for (const ValueInfo& input : graph.inputs) {
    if (LooksLikeState(input, true)) inputs.push_back(input.name);
  }
  for (const ValueInfo& output : graph.outputs) {
    if (LooksLikeState(output, false)) {
      outputs.push_back(output.name);
    } else if (io.logits.empty() || output.name == "logits") {
      io.logits = output.name;
    }
  }
  std::map<int, LayerState> states;
  const auto input_layers = LayersByName(inputs), output_layers = LayersByName(outputs);
  for (const std::string& name : inputs) states[input_layers.at(name)].inputs.push_back(name);
  for (const std::string& name : outputs) states[output_layers.at(name)].outputs.push_back(name);
  for (const std::string_view name : {"inputs_embeds", "input_ids"}) {
    if (graph.FindInput(name) != nullptr) io.tokens = name;
  }
  if (io.tokens.empty()) {
    return NotADecoder("The graph has neither an input 'input_ids' nor 'inputs_embeds'.");
  }
  const ValueInfo& tokens = *graph.FindInput(io.tokens);
  const size_t rank = io.tokens == "input_ids" ? 2 : 3;
  if (tokens.shape && tokens.shape->size() != rank) {
    return NotADecoder("The input " + Quoted(io.tokens) + " has " +
                       std::to_string(tokens.shape->size()) + " dimensions; expected " +
                       std::to_string(rank) + ", batch and sequence first.");
  }
  if (io.logits.empty()) return NotADecoder("The graph has no output besides its caches.");
  if (states.empty()) {
    return NotADecoder(
        "The graph has no key-value cache inputs such as 'past_key_values.0.key'; export the "
        "decoder with its cache.");
  }
  constexpr int kMostLayers = 1 << 16;
  for (auto& [number, state] : states) {
    if (number >= kMostLayers) {
      return NotADecoder("The caches are numbered up to " + std::to_string(number) +
                         "; expected at most " + std::to_string(kMostLayers) + " layers.");
    }
    io.states.resize(static_cast<size_t>(number));
    if (state.inputs.empty() || state.outputs.empty()) {
      return NotADecoder("The cache of layer " + std::to_string(number) +
                         " is not both an input and an output of the graph.");
    }
    for (const std::string& name : state.inputs) io.state_layers.emplace(name, number);
    for (const std::string& name : state.outputs) io.state_layers.emplace(name, number);
    io.states.push_back(std::move(state));
  }
  return io;
}

Status CheckEveryLayerHasState(const DecoderIo& io) {
  for (size_t layer = 0; layer < io.states.size(); ++layer) {
    if (!io.states[layer].inputs.empty()) continue;
    return NotADecoder("The caches are numbered up to " + std::to_string(io.states.size() - 1) +
                       ", but there is none for layer " + std::to_string(layer) + ".");
  }
  return OkStatus();
}

}  // namespace weft::onnx
