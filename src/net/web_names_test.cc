// One spelling for names that are the same.
#include "net/web_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::net {
namespace {

using testing::HasSubstr;

TEST(WebNames, AuthoritiesHaveOneSpelling) {
  for (const char* same : {"localhost:8080", "LOCALHOST:8080", "LocalHost.:8080",
                           "%6Cocalhost:8080", "localhost:08080"}) {
    EXPECT_EQ(CanonicalAuthority(same), "localhost:8080") << same;
  }
  for (const char* same : {"[::1]", "[0:0:0:0:0:0:0:1]", "[::1]:", "[0::0001]"}) {
    EXPECT_EQ(CanonicalAuthority(same), "[::1]") << same;
  }
  EXPECT_EQ(CanonicalAuthority("[2001:DB8::1]:443"), "[2001:db8::1]:443");
  for (const char* bad : {"", ":80", "user@host", "host/path", "host:80:90", "host:99999", "host:x",
                          "[::1", "[::x]", "::1", "a b", "host:-1", "evil\xff", "a%00b", "a%zz"}) {
    EXPECT_EQ(CanonicalAuthority(bad), std::nullopt) << bad;
  }
}

TEST(WebNames, OriginsLoseTheirDefaultPort) {
  for (const char* same : {"https://app.example", "HTTPS://App.Example", "https://app.example:443",
                           "https://app.example:0443"}) {
    EXPECT_EQ(CanonicalOrigin(same), "https://app.example") << same;
  }
  EXPECT_EQ(CanonicalOrigin("http://app.example:443"), "http://app.example:443");
  EXPECT_EQ(CanonicalOrigin("http://[::1]:80"), "http://[::1]");
  EXPECT_EQ(CanonicalOrigin("http://[::80]"), "http://[::80]");
  EXPECT_EQ(CanonicalOrigin("chrome-extension://abcdef"), "chrome-extension://abcdef");
  for (const char* bad : {"null", "", "app.example", "https://", "https://a/b", "://a", "1a://b"}) {
    EXPECT_EQ(CanonicalOrigin(bad), std::nullopt) << bad;
  }
}

TEST(WebNames, WhatIsTypedIsCheckedAtOnce) {
  EXPECT_EQ(*ParseOrigin("--allow-origin", " https://App.example:443/ "), "https://app.example");
  EXPECT_EQ(*ParseOrigin("--allow-origin", "app://obsidian.md"), "app://obsidian.md");
  const auto why = [](const char* text) {
    const auto refused = ParseOrigin("--allow-origin", text);
    EXPECT_FALSE(refused.ok()) << text;
    return refused.ok() ? "" : refused.error().message();
  };
  EXPECT_THAT(why("*"), HasSubstr("every page"));
  EXPECT_THAT(why("null"), HasSubstr("sandboxed"));
  EXPECT_THAT(why("app.example"), HasSubstr("no scheme"));
  EXPECT_THAT(why("https://app.example/chat"), HasSubstr("scheme, host and port"));
  EXPECT_THAT(why("https://b\xc3\xbc"
                  "cher.example"),
              HasSubstr("xn--"));
  EXPECT_THAT(why(""), HasSubstr("--allow-origin is ''"));
  EXPECT_EQ(*ParseHostName("--host-name", "Chat.Example"), "chat.example");
  EXPECT_EQ(*ParseHostName("--host-name", "2001:DB8::1"), "[2001:db8::1]");
  for (const char* bad : {"https://chat.example", "a/b", "", "a b"}) {
    EXPECT_FALSE(ParseHostName("--host-name", bad).ok()) << bad;
  }
}

TEST(WebNames, AddressesHaveOneSpelling) {
  EXPECT_EQ(CanonicalAddress("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(CanonicalAddress("0:0:0:0:0:0:0:1"), "::1");
  EXPECT_EQ(CanonicalAddress("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(CanonicalAddress("10.0.0"), "");
  EXPECT_EQ(CanonicalAddress("host"), "");
}

}  // namespace
}  // namespace weft::net
