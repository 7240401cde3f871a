// Requests for embeddings, in OpenAI's form and Ollama's two, and what they are answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <limits>

#include "api/embedding_request.h"
#include "api/embedding_response.h"
#include "api/ollama_request.h"
#include "api/request_fields_testing.h"

namespace weft::api {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;

using ReadsEmbedding = ApiResult<EmbeddingRequest> (*)(ByteSpan);

EmbeddingRequest ReadEmbedding(ReadsEmbedding parse, const std::string& body) {
  auto parsed = parse(AsBytes(body));
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    ADD_FAILURE() << error->message;
    return {};
  }
  return std::get<EmbeddingRequest>(std::move(parsed));
}

std::string EmbeddingRefusal(ReadsEmbedding parse, const std::string& body) {
  const auto parsed = parse(AsBytes(body));
  const auto* error = std::get_if<ApiError>(&parsed);
  return error != nullptr ? error->param + ": " + error->message : "accepted";
}

const EmbeddingInput kA = std::string("a"), kB = std::string("b");
const EmbeddingInput k12 = std::vector<int32_t>{1, 2}, k3 = std::vector<int32_t>{3};

TEST(EmbeddingRequest, InputsHaveFourForms) {
  const auto inputs = [](const std::string& text) {
    return ReadEmbedding(ParseEmbeddingRequest, R"({"model":"m","input":)" + text + "}").inputs;
  };
  EXPECT_THAT(inputs(R"("a")"), ElementsAre(kA));
  EXPECT_THAT(inputs(R"(["a","b"])"), ElementsAre(kA, kB));
  EXPECT_THAT(inputs("[1,2]"), ElementsAre(k12));
  EXPECT_THAT(inputs("[[1,2],[3]]"), ElementsAre(k12, k3));
  EXPECT_THAT(inputs(R"([[3],"a"])"), ElementsAre(k3, kA));
}

TEST(EmbeddingRequest, WhatIsNoInputIsRefused) {
  for (const char* bad : {"null", "\"\"", "[]", "[\"a\",\"\"]", "[[]]", "[[1],[]]", "[1,\"a\"]",
                          "[-1]", "[1.5]", "[2147483648]", "[[[1]]]", "{}", "7", "true"}) {
    EXPECT_THAT(EmbeddingRefusal(ParseEmbeddingRequest, std::string(R"({"input":)") + bad + "}"),
                HasSubstr("input: 'input' is"))
        << bad;
  }
  EXPECT_THAT(EmbeddingRefusal(ParseEmbeddingRequest, R"({"model":"m"})"),
              HasSubstr("'input' is missing"));
  std::string many = R"({"input":["a")";
  for (int i = 1; i <= 2048; ++i) many += R"(,"a")";
  EXPECT_THAT(EmbeddingRefusal(ParseEmbeddingRequest, many + "]}"),
              HasSubstr("'input' has 2049 entries; expected at most 2048"));
}

TEST(EmbeddingRequest, FieldsAreFollowedOrRefusedByName) {
  const auto request = ReadEmbedding(
      ParseEmbeddingRequest,
      R"({"input":"a","encoding_format":"base64","dimensions":8,"prompt_name":"query"})");
  EXPECT_TRUE(request.base64);
  EXPECT_EQ(request.dimensions, 8u);
  EXPECT_EQ(request.prompt_name, "query");
  EXPECT_FALSE(request.truncates);
  const auto refusal = [](const char* field) {
    return EmbeddingRefusal(ParseEmbeddingRequest, std::string(R"({"input":"a",)") + field + "}");
  };
  EXPECT_THAT(refusal(R"("encoding_format":"hex")"), HasSubstr("encoding_format: "));
  EXPECT_THAT(refusal(R"("dimensions":0)"), HasSubstr("dimensions: 'dimensions' is 0"));
  EXPECT_THAT(refusal(R"("dimensions":"8")"), HasSubstr("dimensions: 'dimensions' is \"8\""));
  EXPECT_THAT(refusal(R"("prompt_name":7)"), HasSubstr("prompt_name: 'prompt_name' is 7"));
  EXPECT_THAT(refusal(R"("input_type":"query")"), HasSubstr("'input_type' is no field"));
  EXPECT_THAT(refusal(R"("stream":true)"), HasSubstr("'stream' is no field"));
  const auto parse = [](json::object fields) {
    fields["input"] = "a";
    return ParseEmbeddingRequest(AsBytes(json::serialize(fields)));
  };
  ExpectNeverPassedOver(EmbeddingFields(), parse);
  ExpectDocumented(EmbeddingFields());
}

TEST(EmbeddingRequest, OllamasFormsMayAskForNothing) {
  EXPECT_THAT(ReadEmbedding(ParseOllamaEmbed, R"({"model":"m","input":["a","b"]})").inputs,
              ElementsAre(kA, kB));
  EXPECT_THAT(ReadEmbedding(ParseOllamaEmbed, R"({"model":"m","input":"a","dimensions":4})").inputs,
              ElementsAre(kA));
  for (const char* body :
       {R"({"model":"m"})", R"({"model":"m","input":""})", R"({"model":"m","input":[]})"})
    EXPECT_TRUE(ReadEmbedding(ParseOllamaEmbed, body).inputs.empty()) << body;
  EXPECT_TRUE(ReadEmbedding(ParseOllamaEmbed, R"({"input":"a"})").truncates);
  EXPECT_FALSE(ReadEmbedding(ParseOllamaEmbed, R"({"input":"a","truncate":false})").truncates);
  EXPECT_THAT(
      ReadEmbedding(ParseOllamaEmbeddings, R"({"model":"m","prompt":"b","keep_alive":5})").inputs,
      ElementsAre(kB));
  EXPECT_THAT(EmbeddingRefusal(ParseOllamaEmbed, R"({"input":[1]})"),
              HasSubstr("input: 'input' is [1]"));
  EXPECT_THAT(EmbeddingRefusal(ParseOllamaEmbeddings, R"({"prompt":"a","input":"a"})"),
              HasSubstr("'input' is no field"));
  EXPECT_THAT(EmbeddingRefusal(ParseOllamaEmbed, R"({"input":"a","options":{"mirostat":1}})"),
              HasSubstr("options.mirostat: "));
  ExpectDocumented(OllamaEmbedFields());
  ExpectDocumented(OllamaEmbeddingsFields());
}

// RFC 4648, 10.
TEST(EmbeddingResponse, Base64IsThatOfTheRfc) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [text, encoded] : cases)
    EXPECT_EQ(Base64(AsBytes(std::string_view(text))), encoded);
  const uint8_t high[] = {0xfb, 0xff, 0xfe};
  EXPECT_EQ(Base64(high), "+//+");
}

TEST(EmbeddingResponse, NumbersAreTheSameF32Again) {
  const Vectors vectors = {{0.1f, -1e-30f, 3, std::numeric_limits<float>::denorm_min()},
                           {1.0f / 3, -0.0f, 65504, 1e20f}};
  const json::value openai = json::parse(EmbeddingsJson("a \"b\"", vectors, false, 7));
  EXPECT_EQ(openai.at("object"), "list");
  EXPECT_EQ(openai.at("model"), "a \"b\"");
  EXPECT_EQ(openai.at("usage"), (json::object{{"prompt_tokens", 7}, {"total_tokens", 7}}));
  const json::value ollama = json::parse(OllamaEmbedJson("m", vectors, 7, 5000, 10));
  EXPECT_EQ(ollama.at("prompt_eval_count"), 7);
  EXPECT_EQ(ollama.at("total_duration"), 5000);
  EXPECT_EQ(ollama.at("load_duration"), 10);
  for (size_t i = 0; i < 2; ++i) {
    const json::value& one = openai.at("data").at(i);
    EXPECT_EQ(one.at("object"), "embedding");
    EXPECT_EQ(one.at("index"), i);
    for (size_t column = 0; column < 4; ++column) {
      const float expected = vectors[i][column];
      EXPECT_EQ(static_cast<float>(one.at("embedding").at(column).to_number<double>()), expected);
      EXPECT_EQ(static_cast<float>(ollama.at("embeddings").at(i).at(column).to_number<double>()),
                expected);
    }
  }
  const json::value coded = json::parse(EmbeddingsJson("m", {{1, -2}}, true, 1));
  EXPECT_EQ(coded.at("data").at(0).at("embedding"), "AACAPwAAAMA=");
  EXPECT_EQ(OllamaEmbeddingsJson({{1, -2}}), R"({"embedding":[1,-2]})");
  EXPECT_EQ(OllamaEmbeddingsJson({}), R"({"embedding":[]})");
}

}  // namespace
}  // namespace weft::api
