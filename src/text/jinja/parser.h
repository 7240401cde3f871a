// Parses the tokens of a chat template. Recursive descent; depth is bounded, so that no source
// exhausts the stack.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace weft::jinja {

// Errors: kInvalidData with the line; kUnsupported for statements that reach other files (include,
// import, extends, ...).
Result<Block> ParseTemplate(std::vector<Token> tokens);

// Expressions and statements nested deeper than this are refused.
inline constexpr int kMaxSyntaxDepth = 200;

// Reads tokens one after another. Both parsers are built on it.
class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& Take() {
    const Token& token = Peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool IsOperator(std::string_view text, size_t ahead = 0) const {
    return Peek(ahead).kind == Token::Kind::kOperator && Peek(ahead).text == text;
  }
  bool IsName(std::string_view text, size_t ahead = 0) const {
    return Peek(ahead).kind == Token::Kind::kName && Peek(ahead).text == text;
  }
  bool TakeOperator(std::string_view text);
  bool TakeName(std::string_view text);
  Status ExpectOperator(std::string_view text);
  Status Expect(Token::Kind kind, std::string_view what);
  Result<std::string> ExpectName(std::string_view what);
  Error Fault(std::string_view expected) const;

  size_t position() const { return at_; }
  // Whether the name occurs from `begin` to here.
  bool SeenName(std::string_view name, size_t begin) const;

 private:
  std::vector<Token> tokens_;  // the last one is kEnd
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader& tokens) : tokens_(tokens) {}

  // a if b else c; with `conditional` false, "if" ends the expression.
  Result<ExpressionPtr> Parse(bool conditional = true);
  // a, b, c is a tuple.
  Result<ExpressionPtr> ParseTuple(bool conditional = true);
  // After "(": up to and with ")".
  Result<Arguments> ParseArguments();

 private:
  using Step = Result<ExpressionPtr> (ExpressionParser::*)();
  Result<ExpressionPtr> ParseOr();
  Result<ExpressionPtr> ParseAnd();
  Result<ExpressionPtr> ParseNot();
  Result<ExpressionPtr> ParseComparison();
  Result<ExpressionPtr> ParseSum();
  Result<ExpressionPtr> ParseConcatenation();
  Result<ExpressionPtr> ParseProduct();
  Result<ExpressionPtr> ParsePower();
  Result<ExpressionPtr> ParseUnary(bool with_filters);
  Result<ExpressionPtr> ParseFilteredUnary() { return ParseUnary(true); }
  Result<ExpressionPtr> ParsePrimary();
  Result<ExpressionPtr> ParseParenthesis();
  Result<ExpressionPtr> ParseArray();
  Result<ExpressionPtr> ParseObject();
  Result<ExpressionPtr> ParsePostfix(ExpressionPtr operand);
  Result<ExpressionPtr> ParseSubscript(ExpressionPtr operand);
  Result<ExpressionPtr> ParseFiltersAndTests(ExpressionPtr operand);
  Result<ExpressionPtr> ParseTest(ExpressionPtr operand);
  Result<ExpressionPtr> ParseLeftAssociative(Step operand,
                                             std::initializer_list<std::string_view> operators);
  Result<ExpressionPtr> Finish(std::unique_ptr<Expression> expression);
  std::unique_ptr<Expression> Make(Expression::Kind kind) const;

  TokenReader& tokens_;
  int nesting_ = 0;
};

}  // namespace weft::jinja
