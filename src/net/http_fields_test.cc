// Field values as RFC 9110 allows them to be written.
#include "net/http_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::net {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(HttpFields, ListsHaveEmptyMembersAndQuotes) {
  EXPECT_THAT(ListMembers(R"(a, "b, \" c",, d ,	e)"), ElementsAre("a", R"("b, \" c")", "d", "e"));
  EXPECT_THAT(ListMembers(" , ,"), IsEmpty());
  EXPECT_THAT(ListMembers(""), IsEmpty());
  EXPECT_THAT(ListMembers(R"("open, \)"), ElementsAre(R"("open, \)"));
}

TEST(HttpFields, CodingsAreWelcomeByNameStarAndWeight) {
  EXPECT_EQ(EncodingWeight("gzip, deflate, br", "br"), 1000);
  EXPECT_EQ(EncodingWeight("GZIP;Q=0.5", "gzip"), 500);
  EXPECT_EQ(EncodingWeight("x-gzip", "gzip"), 1000);
  EXPECT_EQ(EncodingWeight("br;q=0, *", "br"), 0);
  EXPECT_EQ(EncodingWeight("br;q=0, *;q=0.25", "gzip"), 250);
  EXPECT_EQ(EncodingWeight("*;q=0", "gzip"), 0);
  EXPECT_EQ(EncodingWeight("gzip ; q = 0.000", "gzip"), 0);
  EXPECT_EQ(EncodingWeight("gzip;level=9;q=0.125", "gzip"), 125);
  EXPECT_EQ(EncodingWeight("", "br"), 0);
  EXPECT_EQ(EncodingWeight("brotli, embr", "br"), 0) << "names are whole";
  EXPECT_EQ(EncodingWeight("gzip", "identity"), 1000);
  EXPECT_EQ(EncodingWeight("gzip, identity;q=0", "identity"), 0);
}

TEST(HttpFields, EntityTagsAreComparedStronglyOrWeakly) {
  const auto weak = [](const char* value) {
    return NamesEtag(value, "\"tag\"", EtagComparison::kWeak);
  };
  const auto strong = [](const char* value) {
    return NamesEtag(value, "\"tag\"", EtagComparison::kStrong);
  };
  for (const char* value : {"\"tag\"", "\"a\", \"tag\"", "*", " * ", "\"a,b\" , \"tag\","}) {
    EXPECT_TRUE(weak(value)) << value;
    EXPECT_TRUE(strong(value)) << value;
  }
  EXPECT_TRUE(weak("W/\"tag\""));
  EXPECT_FALSE(strong("W/\"tag\""));
  for (const char* value : {"", "tag", "\"tags\"", "\"a, \\\"tag\\\"\"", "Sun, 06 Nov 1994"}) {
    EXPECT_FALSE(weak(value)) << value;
  }
}

TEST(HttpFields, ParametersOfMediaTypes) {
  EXPECT_EQ(MediaTypeParameter("application/json; Charset=\"UTF-8\"", "charset"), "utf-8");
  EXPECT_EQ(MediaTypeParameter("application/json;a=b ; charset=utf-16", "charset"), "utf-16");
  EXPECT_EQ(MediaTypeParameter("application/json", "charset"), std::nullopt);
  EXPECT_EQ(MediaTypeParameter("x/y; note=\"; charset=utf-16\"", "charset"), std::nullopt);
}

TEST(HttpFields, DatesAreThoseOfTheRfc) {
  EXPECT_EQ(HttpDate(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(HttpDate(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(HttpDate(4102444799), "Thu, 31 Dec 2099 23:59:59 GMT");
}

TEST(HttpFields, DatesComeInThreeForms) {
  for (const char* text : {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                           "Sun Nov  6 08:49:37 1994", " Sun, 06 Nov 1994 08:49:37 GMT "}) {
    EXPECT_EQ(ParseHttpDate(text), 784111777) << text;
  }
  for (const char* bad : {"", "5", "Sun, 06 Nov 1994", "Sun, 06 Nov 1994 08:49:37 GMT x"}) {
    EXPECT_EQ(ParseHttpDate(bad), std::nullopt) << bad;
  }
}

TEST(HttpFields, Tokens) {
  for (const char* good : {"GET", "x-stainless-os", "!#$%&'*+-.^_`|~09"}) {
    EXPECT_TRUE(IsFieldToken(good)) << good;
  }
  for (const char* bad : {"", "a b", "a:b", "a\r\nb", "a,b", "\xc3\xa9"}) {
    EXPECT_FALSE(IsFieldToken(bad)) << bad;
  }
}

}  // namespace
}  // namespace weft::net
