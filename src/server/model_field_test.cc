#include "server/model_field.h"

#include <gtest/gtest.h>

namespace weft::server {
namespace {

TEST(ModelFieldTest, FindsTheOutermostOne) {
  EXPECT_EQ(FindModelField(R"({"model": "tiny", "messages": []})"), "tiny");
  EXPECT_EQ(FindModelField(R"( {"messages":[{"model":"no"},"model"], "model":"yes"})"), "yes");
  EXPECT_EQ(FindModelField(R"({"tools":{"model":"no"},"stream":true,"model":"yes"})"), "yes");
  EXPECT_EQ(FindModelField(R"({"prompt":"\"model\":\"no\"","model":"yes"})"), "yes");
  EXPECT_EQ(FindModelField(R"({"user":"model","model":"yes"})"), "yes");
  EXPECT_EQ(FindModelField(R"({"model":"a\u0062\"c"})"), "ab\"c");
}

TEST(ModelFieldTest, SaysNothingOfBodiesWithoutOne) {
  for (const char* body : {"", "{}", "[]", "[{\"model\":\"x\"}]", "\"model\"", "{\"model\":3}",
                           "{\"model\":{\"model\":\"x\"}}", "{\"model\":[\"x\"]}", "{\"model\"",
                           "{\"model\":\"x", "{\"model\":\"\\u12\"}", "}}}{\"model\":\"x\"}",
                           "{\"modem\":\"x\"}", "nonsense", "{\"a\":\"\\"})
    EXPECT_EQ(FindModelField(body), "") << body;
}

}  // namespace
}  // namespace weft::server
