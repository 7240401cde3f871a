#include "grammar/schema.h"

#include <gmock/gmock.h>

#include "grammar/grammar_testing.h"

namespace weft::grammar {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Schema, ObjectsHaveTheirPropertiesInOrder) {
  const auto compiled = SchemaOf(R"({"type": "object", "properties": {
      "name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array",
      "items": {"enum": ["a", "b"]}}}, "required": ["name", "age"],
      "additionalProperties": false})");
  ExpectMatches(compiled,
                {R"({"name":"A","age":-3})", R"({"name": "", "age": 0, "tags": ["a","b"]})",
                 "{\n  \"name\": \"é\\u00e9\\\\\",\n  \"age\": 1\n}"});
  ExpectRefuses(
      compiled,
      {R"({"age":3,"name":"A"})", R"({"name":"A"})", R"({"name":"A","age":3.5})",
       R"({"name":"A","age":3,"x":1})", R"({"name":"A","age":3,"tags":["c"]})",
       R"({"name":"A","age":3,})", R"({"name" :"A","age":3})", R"( {"name":"A","age":3})",
       R"({"name":"A","age":3} )", R"({"name":"A",  "age":3})", R"({"name":"\ud800","age":3})"});
}

TEST(Schema, AnyOfItsOptionalPropertiesMayBeFirst) {
  const auto compiled = SchemaOf(R"({"properties": {"a": {"const": 1}, "b": {"const": 2},
      "c": {"const": 3}, "d": {"const": 4}}, "required": ["c"]})");
  ExpectMatches(compiled, {R"({"c":3})", R"({"a":1,"c":3})", R"({"b":2,"c":3,"d":4})",
                           R"({"a":1,"b":2,"c":3,"d":4})"});
  ExpectRefuses(compiled,
                {"{}", R"({"a":1})", R"({,"c":3})", R"({"a":1"c":3})", R"({"c":3,"e":5})"});
  const auto optional = SchemaOf(R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}})");
  ExpectMatches(optional, {"{}", "{ }", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"});
  ExpectRefuses(optional, {R"({"b":2,"a":1})", R"({,})"});
}

TEST(Schema, OtherPropertiesHaveOtherNames) {
  const auto compiled = SchemaOf(R"({"properties": {"a": {"const": 1}, "ab\n": {"const": 2}},
      "additionalProperties": {"type": "boolean"}})");
  ExpectMatches(compiled, {"{}", R"({"a":1})", R"({"b":true})", R"({"a":1,"ab":false,"\"":true})",
                           R"({"abc":true})", R"({"ab\n":2,"ab\nc":true,"":true})"});
  ExpectRefuses(compiled, {R"({"a":true})", R"({"\u0061":true})", R"({"ab\n":true})", R"({"b":1})",
                           R"({"ab\u000a":true})"});
  ExpectMatches(SchemaOf(R"({"type":"object","additionalProperties":true})"),
                {"{}", R"({"a":[1,{}]})", R"({"\u0061":0,"b":"x"})"});
  ExpectRefuses(SchemaOf(R"({"type":"object","additionalProperties":false})"), {R"({"a":1})"});
  ExpectMatches(SchemaOf(R"({"type":"object"})"), {"{}", R"({"a":[null,true,{"b":1e5}]})"});
}

TEST(Schema, StringsHaveLengthsInCharacters) {
  const auto compiled = SchemaOf(R"({"type":"string","minLength":2,"maxLength":3})");
  ExpectMatches(compiled, {R"("ab")", R"("é😀€")", R"("\n\u00e9")", R"("\ud83d\ude00xy")"});
  ExpectRefuses(compiled, {R"("a")", R"("abcd")", R"("\ud83d\ude00")", R"("\ude00a")"});
  ExpectMatches(SchemaOf(R"({"type":"string","maxLength":3000})"),
                {'"' + std::string(3000, 'x') + '"'});
  ExpectRefuses(SchemaOf(R"({"type":"string","maxLength":3000})"),
                {'"' + std::string(3001, 'x') + '"'});
}

TEST(Schema, PatternsAreOfWhatTheStringSays) {
  const auto compiled = SchemaOf(R"({"type":"string","pattern":"^a[\"\\n]+\\\\$"})");
  ExpectMatches(compiled, {R"("a\"\\")", R"("a\n\"\\")"});
  ExpectRefuses(compiled, {R"("a\"")", R"("a"\\")", R"("b\"\\")"});
  ExpectMatches(SchemaOf(R"({"type":"string","pattern":"b+"})"), {R"("abba\n")"});
  ExpectMatches(SchemaOf(R"({"type":"string","format":"date"})"), {R"("2024-02-29")"});
  ExpectRefuses(SchemaOf(R"({"type":"string","format":"date"})"),
                {R"("2023-02-29")", R"("1900-02-29")", R"("2024-04-31")", R"("2024-13-01")"});
  ExpectMatches(SchemaOf(R"({"type":"string","format":"ipv6"})"), {R"("::")", R"("1:2::3")"});
}

TEST(Schema, NumbersAreWithinBounds) {
  struct Range {
    std::optional<int64_t> least, most;
  };
  const Range kRanges[] = {{0, 9},     {1, 10},  {-5, 5},     {10, 1234}, {-1234, -17}, {99, 100},
                           {5, {}},    {{}, -3}, {-100, {}},  {{}, 250},  {0, 0},       {-1, 0},
                           {100, 199}, {7, 7},   {998, 1002}, {-20, 305}};
  for (const auto& [least, most] : kRanges) {
    boost::json::object schema = {{"type", "integer"}}, excluded = schema;
    if (least) schema["minimum"] = *least, excluded["exclusiveMinimum"] = *least - 1;
    if (most) schema["maximum"] = *most, excluded["exclusiveMaximum"] = *most + 1;
    const auto compiled = CompileSchema(schema), compiled_excluded = CompileSchema(excluded);
    schema["type"] = "number";
    const auto number = CompileSchema(schema);
    for (int64_t i = -1500; i <= 1500; ++i) {
      const bool fits = (!least || i >= *least) && (!most || i <= *most);
      ASSERT_EQ(Matches(compiled, std::to_string(i)), fits) << i << " of " << schema;
      ASSERT_EQ(Matches(compiled_excluded, std::to_string(i)), fits) << i << " of " << excluded;
      ASSERT_EQ(Matches(number, std::to_string(i)), fits) << i << " of " << schema;
      const double half = static_cast<double>(i) + 0.5;
      const bool half_fits = (!least || half >= static_cast<double>(*least)) &&
                             (!most || half <= static_cast<double>(*most));
      const std::string text = std::to_string(half).substr(0, std::to_string(half).size() - 5);
      ASSERT_EQ(Matches(number, text), half_fits) << text << " of " << schema;
    }
  }
  ExpectMatches(SchemaOf(R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})"),
                {"0.5", "0.01", "0.99"});
  ExpectRefuses(SchemaOf(R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})"),
                {"0", "0.0", "1", "1.0", "-0.1", "00.5"});
  ExpectMatches(SchemaOf(R"({"type":"integer","minimum":0.5,"maximum":2.5})"), {"1", "2"});
  ExpectRefuses(SchemaOf(R"({"type":"integer","minimum":0.5,"maximum":2.5})"), {"0", "3"});
  ExpectMatches(SchemaOf(R"({"type":"integer","minimum":-9223372036854775808})"),
                {"-9223372036854775808", "9223372036854775807"});
  ExpectMatches(SchemaOf(R"({"type":"number"})"), {"0", "-0.5", "1e5", "12.25E-10"});
  ExpectRefuses(SchemaOf(R"({"type":"number"})"), {"01", ".5", "1.", "+1", "1e", "1e999", "NaN"});
}

TEST(Schema, ArraysHaveTheirElementsAndCounts) {
  const auto tuple = SchemaOf(R"({"type":"array","prefixItems":[{"const":1},{"const":2}],
      "items":{"const":3},"minItems":1,"maxItems":4})");
  ExpectMatches(tuple, {"[1]", "[1,2]", "[1, 2,3]", "[1,2,3,3]"});
  ExpectRefuses(tuple, {"[]", "[2]", "[1,3]", "[1,2,3,3,3]", "[1,2,]"});
  ExpectMatches(SchemaOf(R"({"prefixItems":[{"const":1},{"const":2}]})"), {"[]", "[1]", "[1,2]"});
  ExpectRefuses(SchemaOf(R"({"prefixItems":[{"const":1},{"const":2}]})"), {"[1,2,3]"});
  const auto list = SchemaOf(R"({"items":{"type":"null"},"minItems":2,"maxItems":3})");
  ExpectMatches(list, {"[null,null]", "[\n null, null, null\n]"});
  ExpectRefuses(list, {"[null]", "[null,null,null,null]"});
  ExpectMatches(SchemaOf(R"({"type":"array","maxItems":0})"), {"[]", "[ ]"});
  ExpectRefuses(SchemaOf(R"({"type":"array","maxItems":0})"), {"[1]"});
}

TEST(Schema, FollowsReferencesAlsoToItself) {
  const auto compiled = SchemaOf(R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"object",
      "properties":{"v":{"type":"integer"},"next":{"anyOf":[{"type":"null"},
      {"$ref":"#/$defs/a~1b"}]}},"required":["v","next"],"additionalProperties":false}}})");
  ExpectMatches(compiled, {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"});
  ExpectRefuses(compiled, {R"({"v":1,"next":{"v":2}})", "null"});
  const auto tree = SchemaOf(R"({"type":"object","properties":{"kids":{"type":"array",
      "items":{"$ref":"#"}}},"required":["kids"]})");
  ExpectMatches(tree, {R"({"kids":[]})", R"({"kids":[{"kids":[]},{"kids":[]}]})"});
}

TEST(Schema, CombinesWhatHoldsTogether) {
  const auto both = SchemaOf(R"({"allOf":[{"$ref":"#/$defs/base"},{"type":"object",
      "properties":{"b":{"type":"integer","maximum":5},"c":{"type":"null"}},"required":["b"]}],
      "$defs":{"base":{"type":"object","properties":{"a":{"const":"x"},"b":{"minimum":3}},
      "required":["a"]}}})");
  ExpectMatches(both, {R"({"a":"x","b":4})", R"({"a":"x","b":3,"c":null})"});
  ExpectRefuses(both, {R"({"a":"x","b":2})", R"({"a":"x","b":6})", R"({"b":4})"});
  const auto either = SchemaOf(R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},
      "anyOf":[{"required":["a"]},{"required":["b"]}]})");
  ExpectMatches(either, {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"});
  ExpectRefuses(either, {"{}"});
  const auto closed = SchemaOf(R"({"allOf":[{"properties":{"a":{"const":1}},
      "additionalProperties":false},{"properties":{"a":true,"b":{"const":2}}}]})");
  ExpectMatches(closed, {"{}", R"({"a":1})"});
  ExpectRefuses(closed, {R"({"b":2})"});
  ExpectMatches(SchemaOf(R"({"enum":[1,"a",null],"type":["string","null"]})"), {R"("a")", "null"});
  ExpectRefuses(SchemaOf(R"({"enum":[1,"a",null],"type":["string","null"]})"), {"1"});
  ExpectMatches(SchemaOf(R"({"const":{"a":[1,{"b":0.5}],"c":"\n"}})"),
                {R"({"a":[1,{"b":0.5}],"c":"\n"})"});
}

TEST(Schema, OneOfHoldsWhereItsAlternativesAreApart) {
  ExpectMatches(SchemaOf(R"({"oneOf":[{"type":"string"},{"type":["integer","null"]}]})"),
                {R"("a")", "3", "null"});
  const auto tagged = SchemaOf(R"({"oneOf":[
      {"properties":{"kind":{"const":"cat"},"lives":{"type":"integer"}},"required":["kind","lives"],
       "type":"object"},
      {"properties":{"kind":{"enum":["dog","wolf"]}},"required":["kind"],"type":"object"}]})");
  ExpectMatches(tagged, {R"({"kind":"cat","lives":9})", R"({"kind":"wolf"})"});
  ExpectRefuses(tagged, {R"({"kind":"cat"})", R"({"kind":"cow"})"});
  EXPECT_THAT(
      ErrorOf(SchemaOf(R"({"properties":{"x":{"oneOf":[{"type":"integer"},
              {"type":"number"}]}}})")),
      AllOf(HasSubstr("'oneOf' at #/properties/x/oneOf"), HasSubstr("alternatives 0 and 1")));
}

TEST(Schema, RefusesByKeywordAndPlace) {
  const std::pair<const char*, const char*> kBad[] = {
      {R"({"properties":{"a/b":{"multipleOf":3}}})",
       "'multipleOf' at #/properties/a~1b/multipleOf is not supported"},
      {R"({"items":{"uniqueItems":true}})", "'uniqueItems' at #/items/uniqueItems"},
      {R"({"patternProperties":{"a":true}})", "'patternProperties' at #/patternProperties"},
      {R"({"not":{}})", "'not' at #/not"},
      {R"({"anyOf":[{},{"if":true}]})", "'if' at #/anyOf/1/if"},
      {R"({"requried":["a"]})", "'requried' at #/requried is no keyword"},
      {R"({"type":"text"})", "'type' at #/type is \"text\"; expected null, boolean"},
      {R"({"type":[]})", "'type' at #/type is an empty list"},
      {R"({"enum":[]})", "'enum' at #/enum is []; expected a list of 1"},
      {R"({"enum":[1],"minimum":0})", "'minimum' at #/minimum is not supported beside 'enum'"},
      {R"({"format":"regex"})", "'format' at #/format is \"regex\"; supported are date, time"},
      {R"({"pattern":"a","maxLength":3})", "'maxLength' at #/maxLength is not supported beside"},
      {R"x({"pattern":"a(?=b)"})x", "'pattern' at #/pattern is \"a(?=b)\". The regular expression"},
      {R"({"type":"number","minimum":0.5})", "'minimum' at #/minimum is 0.5; bounds of numbers"},
      {R"({"minLength":-1})", "'minLength' at #/minLength is -1; expected a whole number"},
      {R"({"maxItems":100000})", "a whole number from 0 to 16384"},
      {R"({"properties":[]})", "'properties' at #/properties is []; expected an object"},
      {R"({"required":[1]})", "'required' at #/required is [1]; expected a list of names"},
      {R"({"$ref":"other.json"})", "can only name a place of the schema itself"},
      {R"({"$ref":"#/$defs/x"})", "\"#/$defs/x\", which is nowhere in the schema"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", "'pattern' at #/pattern is wanted twice"},
      {R"({"allOf":[{"$ref":"#"}],"type":"object"})", "refers to itself without an end"},
      {R"({"items":5})", "The schema at #/items is 5; expected an object, true or false"},
      {"5", "The schema at # is 5; expected an object, true or false"},
      {"false", "no text at all"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
       "has no text at all: what it consists of calls itself for ever"},
      {R"({"type":"string","minLength":3,"maxLength":2})", "no text at all"},
      {R"({"required":["a"],"additionalProperties":false})", "no text at all"}};
  for (const auto& [schema, message] : kBad)
    EXPECT_THAT(ErrorOf(SchemaOf(schema)), HasSubstr(message)) << schema;
  // One that never ends but need not begin is left out.
  ExpectMatches(SchemaOf(R"({"type":"object","properties":{"a":{"type":"object","properties":
      {"a":{"$ref":"#/properties/a"}},"required":["a"]}}})"),
                {"{}"});
}

TEST(Schema, AnnotationsSayNothing) {
  ExpectMatches(SchemaOf(R"({"$schema":"x","$id":"y","title":"t","description":"d","type":"null",
      "default":1,"examples":[2],"x-order":5,"uniqueItems":false,"deprecated":true})"),
                {"null"});
}

TEST(Schema, LargeOnesAreRefusedInTime) {
  std::string wide = R"({"properties":{)";
  for (int i = 0; i < 11'000; ++i)
    wide +=
        (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + "\":{\"const\":" + std::to_string(i) + "}";
  EXPECT_THAT(ErrorOf(SchemaOf(wide + "}}")), HasSubstr("more than 10000 schemas"));
  // Two times two times two ...: each list of alternatives with each.
  std::string product = R"({"allOf":[)";
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::to_string(i);
    product += std::string(i > 0 ? "," : "") + R"({"anyOf":[{"required":["a)" + name +
               R"("]},{"required":["b)" + name + R"("]}]})";
  }
  EXPECT_THAT(ErrorOf(SchemaOf(product + "]}")), HasSubstr("more than 10000 schemas"));
  EXPECT_THAT(ErrorOf(SchemaOf(R"({"properties":{")" + std::string(600, 'k') + R"(":{}}})")),
              HasSubstr("the limit is 512"));
  std::string many = R"({"type":"array","items":{"type":"array","items":{"type":"string",
      "minLength":9000,"maxLength":16000},"minItems":9000,"maxItems":16000},"maxItems":16000})";
  EXPECT_TRUE(SchemaOf(many).ok());
}

}  // namespace
}  // namespace weft::grammar
