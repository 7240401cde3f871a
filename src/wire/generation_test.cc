// Generation frames against tests/golden/generation.json, which an independent packer
// (make_generation_frames.py) wrote.
#include "wire/generation.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <charconv>
#include <string>

#include "base/file.h"

namespace weft::wire {
namespace {

using Json = google::protobuf::Value;

const Json& Golden() {
  static const Json golden = [] {
    Json json;
    const auto text = ReadTextFile(std::string(WEFT_SOURCE_DIR) + "/tests/golden/generation.json");
    CHECK(text.ok() && google::protobuf::util::JsonStringToMessage(*text, &json).ok());
    return json;
  }();
  return golden;
}

const Json& Field(const Json& object, const std::string& name) {
  return object.struct_value().fields().at(name);
}
double Number(const Json& object, const std::string& name) {
  return Field(object, name).number_value();
}
template <typename T>
T As(const Json& object, const std::string& name) {
  return static_cast<T>(Number(object, name));
}

GenerationFrame Described(const Json& json) {
  const std::string& type = Field(json, "type").string_value();
  if (type == "run_here") return RunHere{Number(json, "value") == 1};
  if (type == "whole_model")
    return WholeModel{static_cast<WholeModel::State>(As<uint32_t>(json, "value"))};
  const auto sequence = As<uint32_t>(json, "sequence"), epoch = As<uint32_t>(json, "epoch");
  if (type == "stop") return StopGenerating{sequence, epoch};
  if (type == "tokens") {
    Tokens tokens{sequence, epoch, Number(json, "last") == 1, As<uint32_t>(json, "compute_us"), {}};
    for (const Json& id : Field(json, "tokens").list_value().values())
      tokens.token_ids.push_back(static_cast<int32_t>(id.number_value()));
    return tokens;
  }
  Generate g;
  g.sequence = sequence;
  g.epoch = epoch;
  g.session = As<uint32_t>(json, "session");
  g.generation = As<uint32_t>(json, "generation");
  g.position = As<uint32_t>(json, "position");
  g.token_id = As<int32_t>(json, "token");
  g.count = As<uint16_t>(json, "count");
  g.interval = As<uint16_t>(json, "interval");
  g.sampling.temperature = As<float>(json, "temperature");
  g.sampling.top_k = As<uint32_t>(json, "top_k");
  g.sampling.top_p = As<float>(json, "top_p");
  g.sampling.min_p = As<float>(json, "min_p");
  g.sampling.repetition_penalty = As<float>(json, "repetition");
  g.sampling.presence_penalty = As<float>(json, "presence");
  g.sampling.frequency_penalty = As<float>(json, "frequency");
  const std::string& digits = Field(json, "seed").string_value();
  std::from_chars(digits.data(), digits.data() + digits.size(), g.sampling.seed.emplace());
  for (const Json& id : Field(json, "stops").list_value().values())
    g.stop_ids.push_back(static_cast<int32_t>(id.number_value()));
  const auto pair = [](const Json& item, int i) {
    return item.list_value().values(i).number_value();
  };
  for (const Json& item : Field(json, "biases").list_value().values())
    g.sampling.logit_bias.push_back(
        {static_cast<int32_t>(pair(item, 0)), static_cast<float>(pair(item, 1))});
  for (const Json& item : Field(json, "seen").list_value().values())
    g.seen.push_back({static_cast<int32_t>(pair(item, 0)), static_cast<uint32_t>(pair(item, 1))});
  return g;
}

TEST(Generation, FramesAreTheGoldenBytes) {
  ASSERT_GT(Field(Golden(), "frames").list_value().values_size(), 5);
  for (const Json& json : Field(Golden(), "frames").list_value().values()) {
    const std::vector<uint8_t> bytes = FromHex(Field(json, "hex").string_value()).value();
    const GenerationFrame frame = Described(json);
    EXPECT_EQ(ToHex(EncodeGeneration(frame)), ToHex(bytes));
    EXPECT_TRUE(IsGenerationFrame(bytes));
    const auto decoded = DecodeGeneration(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message();
    EXPECT_TRUE(*decoded == frame) << Field(json, "type").string_value();
  }
}

TEST(Generation, RefusesWhatIsNoFrame) {
  for (const auto& [name, hex] : Field(Golden(), "refused").struct_value().fields()) {
    const auto decoded = DecodeGeneration(FromHex(hex.string_value()).value());
    ASSERT_FALSE(decoded.ok()) << name;
    EXPECT_NE(decoded.error().message().find("expected"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace weft::wire
