#include "grammar/gbnf.h"

#include <gmock/gmock.h>

#include "grammar/grammar_testing.h"

namespace weft::grammar {
namespace {

using testing::HasSubstr;

// The shapes of llama.cpp's own grammars, in our words.
constexpr const char* kArithmetic = R"gbnf(
# Sums with their values.
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf";

constexpr const char* kJson = R"gbnf(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escape sequences
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

ws ::= | " " | "\n" [ \t]{0,20}
)gbnf";

constexpr const char* kMoves = R"gbnf(
root   ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move   ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn   ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
)gbnf";

TEST(Gbnf, TakesGrammarsOfLlamaCpp) {
  ExpectMatches(CompileGbnf(kArithmetic), {"a1 +2*(b -3)=7\n", "x=y\n(1)=1\n"});
  ExpectRefuses(CompileGbnf(kArithmetic), {"a1 + =7\n", "x=y", "(1=1\n", "1a=2\n"});
  ExpectMatches(
      CompileGbnf(kJson),
      {R"({})", R"({"a": [1, -2.5e+1, {"b":"é\u00e9\n"}], "c": null})", "{\n  \"a\": true}"});
  ExpectRefuses(CompileGbnf(kJson),
                {"[]", R"({"a": 01})", R"({"a": "\x"})", "{\"a\": \"\n\"}", R"({"a": 1,})"});
  ExpectMatches(CompileGbnf(kMoves), {"1. e4 e5\n2. Nf3 Nc6\n", "1. d4 d5\n10. O-O-O exd8=Q+\n"});
  ExpectRefuses(CompileGbnf(kMoves), {"1. e4 e5\n", "1. e9 e5\n2. e4 e5\n"});
}

TEST(Gbnf, KnowsItsSyntax) {
  ExpectMatches(CompileGbnf(R"(root ::= "\x41\u00e9\U0001F600\t\"\\" [\]\[\-a] .)"),
                {"Aé😀\t\"\\]€", "Aé😀\t\"\\-x"});
  ExpectMatches(CompileGbnf("root ::= \"a\"{2} \"b\"{,2} \"c\"{1,} (\"d\" |\n \"e\"){0,1}"),
                {"aac", "aabbccd", "aace"});
  ExpectRefuses(CompileGbnf("root ::= \"a\"{2} \"b\"{,2} \"c\"{1,}"), {"aa", "aaac", "aabbbc"});
  ExpectMatches(CompileGbnf("root ::= a-b\na-b ::= \"x\" |\n  \"y\"\r\n"), {"x", "y"});
  ExpectMatches(CompileGbnf("root ::= [a-]+"), {"a-"});
  ExpectMatches(CompileGbnf("root ::= ([0-9]+)+ \"\""), {"123"});
}

TEST(Gbnf, RefusesWithThePlace) {
  const std::pair<const char*, const char*> kBad[] = {
      {"", "no rule 'root'"},
      {"a ::= \"x\"", "no rule 'root'"},
      {"root ::= \"x", "'\"' that is not closed"},
      {"root ::= [a", "'[' that is not closed"},
      {"root ::= (\"a\"", "'(' that is not closed"},
      {"root = \"a\"", "lacks '::='"},
      {"root ::= \"a\" )", "something that is part of no rule"},
      {"root ::= \"a\"\nroot ::= \"b\"", "the rule 'root' twice"},
      {"root ::= \"\\q\"", "an escape that it does not know"},
      {"root ::= \"\\xZZ\"", "names no character"},
      {"root ::= [z-a]", "a range of characters that is none"},
      {"root ::= \"a\"{3,1}", "first number is the larger"},
      {"root ::= \"a\"{20000}", "more than 16384 times"},
      {"root ::= \"a\"{}", "a repeat without a number"},
      {"root ::= <|end|>", "names a token"},
      {"root ::= missing", "'missing' is used but not defined"},
      {"::= \"a\"", "lacks the name of a rule"}};
  for (const auto& [text, message] : kBad)
    EXPECT_THAT(ErrorOf(CompileGbnf(text)), HasSubstr(message)) << text;
  EXPECT_THAT(ErrorOf(CompileGbnf("root ::= \"a\"\nb = 1")), HasSubstr("at byte 15"));
  EXPECT_THAT(ErrorOf(CompileGbnf("root ::= " + std::string(300, '(') + "\"a\"")),
              HasSubstr("nested more than 100 deep"));
  EXPECT_THAT(ErrorOf(CompileGbnf(std::string(kMaxGbnfBytes + 1, ' '))), HasSubstr("the limit"));
}

TEST(Choice, IsOneOfTheTexts) {
  const auto compiled = CompileChoice({"yes", "no", "not sure", "été"});
  ExpectMatches(compiled, {"yes", "no", "not sure", "été"});
  ExpectRefuses(compiled, {"", "ye", "nono", "not", "sure"});
  EXPECT_THAT(ErrorOf(CompileChoice({})), HasSubstr("expected 1 to"));
  EXPECT_THAT(ErrorOf(CompileChoice({"a", ""})), HasSubstr("empty or not valid UTF-8"));
  EXPECT_THAT(ErrorOf(CompileChoice({std::string(70'000, 'a')})), HasSubstr("the limit is 65536"));
}

}  // namespace
}  // namespace weft::grammar
