#include "onnx/decoder_io.h"

#include <map>
#include <optional>

#include "onnx/validate.h"

namespace weft::onnx {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The first run of digits in a name: the layer of "past_key_values.7.key", "past_7", "cache_k_7".
std::optional<int> FirstNumber(std::string_view name) {
  const size_t begin = name.find_first_of("0123456789");
  if (begin == std::string_view::npos) return std::nullopt;
  int number = 0;
  for (size_t i = begin; i < name.size() && name[i] >= '0' && name[i] <= '9'; ++i) {
    number = number * 10 + (name[i] - '0');
    if (number > 1'000'000) return std::nullopt;
  }
  return number;
}

bool LooksLikeState(const ValueInfo& value, bool is_input) {
  if (!FirstNumber(value.name)) return false;
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
  std::map<int, LayerState> states;
  for (const ValueInfo& input : graph.inputs) {
    if (LooksLikeState(input, true)) {
      states[*FirstNumber(input.name)].inputs.push_back(input.name);
    }
  }
  for (const ValueInfo& output : graph.outputs) {
    if (LooksLikeState(output, false)) {
      states[*FirstNumber(output.name)].outputs.push_back(output.name);
    } else if (io.logits.empty() || output.name == "logits") {
      io.logits = output.name;
    }
  }
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
