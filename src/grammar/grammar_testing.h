// What tests of grammars ask again and again.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/matcher.h"

namespace weft::grammar {

// Whether the whole text is one of the grammar's.
inline bool Matches(const Compiled& compiled, std::string_view text) {
  if (!compiled.ok()) {
    ADD_FAILURE() << compiled.error().ToString();
    return false;
  }
  Matcher matcher(compiled.value());
  return matcher.Advance(text) && matcher.CanEnd();
}

inline Compiled SchemaOf(std::string_view text) {
  boost::system::error_code error;
  const boost::json::value schema = boost::json::parse(text, error);
  EXPECT_FALSE(error) << text;
  return CompileSchema(schema);
}

// The sentence of an error; "" and a failed test where there is none.
inline std::string ErrorOf(const Compiled& compiled) {
  EXPECT_FALSE(compiled.ok());
  return compiled.ok() ? "" : compiled.error().message();
}

inline void ExpectMatches(const Compiled& compiled, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) EXPECT_TRUE(Matches(compiled, text)) << text;
}
inline void ExpectRefuses(const Compiled& compiled, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) EXPECT_FALSE(Matches(compiled, text)) << text;
}

}  // namespace weft::grammar
