// Whole-model frames against tests/golden/whole_frames.json, which an independent packer
// (make_whole_frames.py) wrote.
#include "wire/whole_frame.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <charconv>
#include <string>

#include "wire/golden_testing.h"

namespace weft::wire {
namespace {

using Json = boost::json::value;

const Json& Golden() {
  static const Json golden = GoldenJson("whole_frames.json");
  return golden;
}

WholeFrame Described(const Json& json) {
  const std::string type = String(json, "type");
  const std::string text = json.as_object().contains("text") ? String(json, "text") : "";
  if (type == "run_here") return RunHere{Number<int>(json, "value") == 1, text};
  if (type == "whole_model")
    return WholeModel{static_cast<WholeModel::State>(Number(json, "value")), text};
  const auto sequence = Number(json, "sequence"), binding = Number(json, "binding");
  if (type == "stop") return StopGenerating{sequence, binding};
  if (type == "tokens") {
    Tokens tokens{
        sequence, binding, Number<int>(json, "last") == 1, Number(json, "compute_us"), {}};
    for (const Json& id : json.at("tokens").as_array())
      tokens.token_ids.push_back(id.to_number<int32_t>());
    return tokens;
  }
  Generate g;
  g.sequence = sequence;
  g.binding = binding;
  g.session = Number(json, "session");
  g.generation = Number(json, "generation");
  g.position = Number(json, "position");
  g.token_id = Number<int32_t>(json, "token");
  g.count = Number<uint16_t>(json, "count");
  g.interval = Number<uint16_t>(json, "interval");
  g.sampling.temperature = Number<float>(json, "temperature");
  g.sampling.top_k = Number(json, "top_k");
  g.sampling.top_p = Number<float>(json, "top_p");
  g.sampling.min_p = Number<float>(json, "min_p");
  g.sampling.repetition_penalty = Number<float>(json, "repetition");
  g.sampling.presence_penalty = Number<float>(json, "presence");
  g.sampling.frequency_penalty = Number<float>(json, "frequency");
  const std::string digits = String(json, "seed");
  std::from_chars(digits.data(), digits.data() + digits.size(), g.sampling.seed.emplace());
  for (const Json& id : json.at("stops").as_array()) g.stop_ids.push_back(id.to_number<int32_t>());
  for (const Json& item : json.at("biases").as_array())
    g.sampling.logit_bias.push_back(
        {item.at(0).to_number<int32_t>(), item.at(1).to_number<float>()});
  for (const Json& item : json.at("seen").as_array())
    g.seen.push_back({item.at(0).to_number<int32_t>(), item.at(1).to_number<uint32_t>()});
  return g;
}

TEST(WholeFrame, FramesAreTheGoldenBytes) {
  ASSERT_GT(Golden().at("frames").as_array().size(), 5u);
  for (const Json& json : Golden().at("frames").as_array()) {
    const std::vector<uint8_t> bytes = FromHex(String(json, "hex")).value();
    const WholeFrame frame = Described(json);
    EXPECT_EQ(ToHex(EncodeWholeFrame(frame)), ToHex(bytes));
    EXPECT_TRUE(IsWholeFrame(bytes));
    const auto decoded = DecodeWholeFrame(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message();
    EXPECT_TRUE(*decoded == frame) << String(json, "type");
  }
}

TEST(WholeFrame, RefusesWhatIsNoFrame) {
  for (const auto& [name, hex] : Golden().at("refused").as_object()) {
    const auto decoded = DecodeWholeFrame(FromHex(boost::json::value_to<std::string>(hex)).value());
    ASSERT_FALSE(decoded.ok()) << name;
    EXPECT_NE(decoded.error().message().find("expected"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace weft::wire
