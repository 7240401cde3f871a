// Expressions of chat templates, in Jinja's order of binding: if-else, or, and, not, comparisons, +
// -, ~, * / // %, **, signs, then filters and tests.
#include "text/jinja/parser.h"
#include "text/jinja/python_text.h"

namespace weft::jinja {
namespace {

using ExpressionKind = Expression::Kind;

int DepthOf(const ExpressionPtr& expression) {
  return expression ? expression->depth : 0;
}

}  // namespace

bool TokenReader::TakeOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Take();
  return true;
}

bool TokenReader::TakeName(std::string_view text) {
  if (!IsName(text)) return false;
  Take();
  return true;
}

Status TokenReader::ExpectOperator(std::string_view text) {
  if (TakeOperator(text)) return OkStatus();
  return Fault("'" + std::string(text) + "'");
}

Status TokenReader::Expect(Token::Kind kind, std::string_view what) {
  if (Peek().kind != kind) return Fault(what);
  Take();
  return OkStatus();
}

Result<std::string> TokenReader::ExpectName(std::string_view what) {
  if (Peek().kind != Token::Kind::kName) return Fault(what);
  return Take().text;
}

bool TokenReader::SeenName(std::string_view name, size_t begin) const {
  return std::any_of(tokens_.begin() + static_cast<ptrdiff_t>(begin),
                     tokens_.begin() + static_cast<ptrdiff_t>(at_), [&](const Token& token) {
                       return token.kind == Token::Kind::kName && token.text == name;
                     });
}

Error TokenReader::Fault(std::string_view expected) const {
  const Token& token = Peek();
  std::string found;
  switch (token.kind) {
    case Token::Kind::kText:
      found = "text";
      break;
    case Token::Kind::kBlockBegin:
      found = "{%";
      break;
    case Token::Kind::kBlockEnd:
      found = "%}";
      break;
    case Token::Kind::kPrintBegin:
      found = "{{";
      break;
    case Token::Kind::kPrintEnd:
      found = "}}";
      break;
    case Token::Kind::kEnd:
      found = "the end of the template";
      break;
    default:
      found = "'" + token.text.substr(0, 40) + "'";
  }
  return Error(ErrorCode::kInvalidData, "Line " + std::to_string(token.line) +
                                            " of the chat template: expected " +
                                            std::string(expected) + ", but found " + found + ".");
}

std::unique_ptr<Expression> ExpressionParser::Make(ExpressionKind kind) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = tokens_.Peek().line;
  return expression;
}

Result<ExpressionPtr> ExpressionParser::Finish(std::unique_ptr<Expression> expression) {
  int depth = 0;
  for (const ExpressionPtr& operand : expression->operands) {
    depth = std::max(depth, DepthOf(operand));
  }
  for (const ExpressionPtr& argument : expression->arguments.positional) {
    depth = std::max(depth, DepthOf(argument));
  }
  for (const auto& [name, argument] : expression->arguments.named) {
    depth = std::max(depth, DepthOf(argument));
  }
  depth = std::max(
      {depth, DepthOf(expression->arguments.spread), DepthOf(expression->arguments.named_spread)});
  expression->depth = depth + 1;
  if (expression->depth > kMaxSyntaxDepth) {
    return Error(ErrorCode::kInvalidData,
                 "Line " + std::to_string(expression->line) +
                     " of the chat template: an expression is nested more than " +
                     std::to_string(kMaxSyntaxDepth) + " levels deep.");
  }
  return ExpressionPtr(std::move(expression));
}

Result<ExpressionPtr> ExpressionParser::Parse(bool conditional) {
  if (++nesting_ > kMaxSyntaxDepth) return tokens_.Fault("fewer nested expressions");
  ASSIGN_OR_RETURN(ExpressionPtr value, ParseOr());
  while (conditional && tokens_.IsName("if")) {
    auto choice = Make(ExpressionKind::kConditional);
    tokens_.Take();
    ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
    ExpressionPtr otherwise;
    if (tokens_.TakeName("else")) {
      ASSIGN_OR_RETURN(otherwise, Parse(true));
    }
    choice->operands.push_back(std::move(value));
    choice->operands.push_back(std::move(condition));
    choice->operands.push_back(std::move(otherwise));
    ASSIGN_OR_RETURN(value, Finish(std::move(choice)));
  }
  --nesting_;
  return value;
}

Result<ExpressionPtr> ExpressionParser::ParseTuple(bool conditional) {
  ASSIGN_OR_RETURN(ExpressionPtr first, Parse(conditional));
  if (!tokens_.IsOperator(",")) return first;
  auto tuple = Make(ExpressionKind::kTuple);
  tuple->operands.push_back(std::move(first));
  while (tokens_.TakeOperator(",")) {
    const Token& next = tokens_.Peek();
    const bool ends = next.kind == Token::Kind::kBlockEnd || next.kind == Token::Kind::kPrintEnd ||
                      tokens_.IsOperator(")") || tokens_.IsOperator("=") ||
                      (!conditional && (tokens_.IsName("if") || tokens_.IsName("recursive")));
    if (ends) break;
    ASSIGN_OR_RETURN(ExpressionPtr item, Parse(conditional));
    tuple->operands.push_back(std::move(item));
  }
  return Finish(std::move(tuple));
}

Result<ExpressionPtr> ExpressionParser::ParseOr() {
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (tokens_.IsName("or")) {
    auto both = Make(ExpressionKind::kBinary);
    both->text = tokens_.Take().text;
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    both->operands.push_back(std::move(left));
    both->operands.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, Finish(std::move(both)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::ParseAnd() {
  ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (tokens_.IsName("and")) {
    auto both = Make(ExpressionKind::kBinary);
    both->text = tokens_.Take().text;
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    both->operands.push_back(std::move(left));
    both->operands.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, Finish(std::move(both)));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::ParseNot() {
  if (!tokens_.IsName("not")) return ParseComparison();
  if (++nesting_ > kMaxSyntaxDepth) return tokens_.Fault("fewer nested expressions");
  auto negation = Make(ExpressionKind::kNot);
  tokens_.Take();
  ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  negation->operands.push_back(std::move(operand));
  --nesting_;
  return Finish(std::move(negation));
}

Result<ExpressionPtr> ExpressionParser::ParseComparison() {
  auto comparison = Make(ExpressionKind::kComparison);
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseSum());
  comparison->operands.push_back(std::move(first));
  while (true) {
    std::string comparator;
    for (const std::string_view symbol : {"==", "!=", "<", "<=", ">", ">="}) {
      if (tokens_.IsOperator(symbol)) comparator = symbol;
    }
    if (tokens_.IsName("in")) comparator = "in";
    if (tokens_.IsName("not") && tokens_.IsName("in", 1)) {
      comparator = "not in";
      tokens_.Take();
    }
    if (comparator.empty()) break;
    tokens_.Take();
    comparison->comparators.push_back(std::move(comparator));
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseSum());
    comparison->operands.push_back(std::move(operand));
  }
  if (comparison->comparators.empty()) return std::move(comparison->operands[0]);
  return Finish(std::move(comparison));
}

Result<ExpressionPtr> ExpressionParser::ParseLeftAssociative(
    Step operand, std::initializer_list<std::string_view> operators) {
  ASSIGN_OR_RETURN(ExpressionPtr left, (this->*operand)());
  while (true) {
    const bool found =
        std::any_of(operators.begin(), operators.end(),
                    [&](std::string_view symbol) { return tokens_.IsOperator(symbol); });
    if (!found) return left;
    auto both = Make(ExpressionKind::kBinary);
    both->text = tokens_.Take().text;
    ASSIGN_OR_RETURN(ExpressionPtr right, (this->*operand)());
    both->operands.push_back(std::move(left));
    both->operands.push_back(std::move(right));
    ASSIGN_OR_RETURN(left, Finish(std::move(both)));
  }
}

Result<ExpressionPtr> ExpressionParser::ParseSum() {
  return ParseLeftAssociative(&ExpressionParser::ParseConcatenation, {"+", "-"});
}
// a ~ b ~ c is one node: templates join dozens of parts so.
Result<ExpressionPtr> ExpressionParser::ParseConcatenation() {
  auto chain = Make(ExpressionKind::kConcatenation);
  do {
    ASSIGN_OR_RETURN(ExpressionPtr part, ParseProduct());
    chain->operands.push_back(std::move(part));
  } while (tokens_.TakeOperator("~"));
  if (chain->operands.size() == 1) return std::move(chain->operands[0]);
  return Finish(std::move(chain));
}
Result<ExpressionPtr> ExpressionParser::ParseProduct() {
  return ParseLeftAssociative(&ExpressionParser::ParsePower, {"*", "/", "//", "%"});
}
Result<ExpressionPtr> ExpressionParser::ParsePower() {
  return ParseLeftAssociative(&ExpressionParser::ParseFilteredUnary, {"**"});
}

Result<ExpressionPtr> ExpressionParser::ParseUnary(bool with_filters) {
  ExpressionPtr operand;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    if (++nesting_ > kMaxSyntaxDepth) return tokens_.Fault("fewer nested expressions");
    auto sign =
        Make(tokens_.IsOperator("-") ? ExpressionKind::kNegative : ExpressionKind::kPositive);
    tokens_.Take();
    ASSIGN_OR_RETURN(ExpressionPtr number, ParseUnary(false));
    sign->operands.push_back(std::move(number));
    --nesting_;
    ASSIGN_OR_RETURN(operand, Finish(std::move(sign)));
  } else {
    ASSIGN_OR_RETURN(operand, ParsePrimary());
  }
  ASSIGN_OR_RETURN(operand, ParsePostfix(std::move(operand)));
  return with_filters ? ParseFiltersAndTests(std::move(operand)) : Result(std::move(operand));
}

Result<ExpressionPtr> ExpressionParser::ParsePrimary() {
  const Token& token = tokens_.Peek();
  auto literal = Make(ExpressionKind::kLiteral);
  switch (token.kind) {
    case Token::Kind::kName: {
      const std::string& name = token.text;
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        literal->literal = Value::Bool(name == "true" || name == "True");
      } else if (name == "none" || name == "None") {
        literal->literal = Value::MakeNone();
      } else {
        literal->kind = ExpressionKind::kName;
        literal->text = name;
      }
      break;
    }
    case Token::Kind::kString: {
      std::string text = token.text;
      while (tokens_.Peek(1).kind == Token::Kind::kString) {
        tokens_.Take();
        text += tokens_.Peek().text;
      }
      literal->literal = Value::String(std::move(text));
      break;
    }
    case Token::Kind::kInteger: {
      const auto value = ParseDigits(token.text, 10);
      if (!value) return tokens_.Fault("an integer of 128 bits");
      literal->literal = Value::Integer(*value);
      break;
    }
    case Token::Kind::kFloat: {
      literal->literal = Value::Float(python::ParseFloat(token.text).value_or(0));
      break;
    }
    case Token::Kind::kOperator:
      if (token.text == "(") return ParseParenthesis();
      if (token.text == "[") return ParseArray();
      if (token.text == "{") return ParseObject();
      return tokens_.Fault("an expression");
    default:
      return tokens_.Fault("an expression");
  }
  tokens_.Take();
  return Finish(std::move(literal));
}

Result<ExpressionPtr> ExpressionParser::ParseParenthesis() {
  auto empty = Make(ExpressionKind::kTuple);
  tokens_.Take();
  if (tokens_.TakeOperator(")")) return Finish(std::move(empty));
  ASSIGN_OR_RETURN(ExpressionPtr inner, ParseTuple());
  TRY(tokens_.ExpectOperator(")"));
  return inner;
}

Result<ExpressionPtr> ExpressionParser::ParseArray() {
  auto array = Make(ExpressionKind::kArray);
  tokens_.Take();
  while (!tokens_.TakeOperator("]")) {
    ASSIGN_OR_RETURN(ExpressionPtr item, Parse());
    array->operands.push_back(std::move(item));
    if (!tokens_.IsOperator("]")) TRY(tokens_.ExpectOperator(","));
  }
  return Finish(std::move(array));
}

Result<ExpressionPtr> ExpressionParser::ParseObject() {
  auto object = Make(ExpressionKind::kObject);
  tokens_.Take();
  while (!tokens_.TakeOperator("}")) {
    ASSIGN_OR_RETURN(ExpressionPtr key, Parse());
    TRY(tokens_.ExpectOperator(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, Parse());
    object->operands.push_back(std::move(key));
    object->operands.push_back(std::move(value));
    if (!tokens_.IsOperator("}")) TRY(tokens_.ExpectOperator(","));
  }
  return Finish(std::move(object));
}

Result<ExpressionPtr> ExpressionParser::ParsePostfix(ExpressionPtr operand) {
  while (true) {
    if (tokens_.IsOperator(".")) {
      auto attribute = Make(ExpressionKind::kAttribute);
      tokens_.Take();
      const Token& name = tokens_.Peek();
      if (name.kind == Token::Kind::kInteger) {
        attribute->kind = ExpressionKind::kIndex;
        attribute->operands.push_back(std::move(operand));
        ASSIGN_OR_RETURN(ExpressionPtr index, ParsePrimary());
        attribute->operands.push_back(std::move(index));
      } else {
        ASSIGN_OR_RETURN(attribute->text, tokens_.ExpectName("a name after '.'"));
        attribute->operands.push_back(std::move(operand));
      }
      ASSIGN_OR_RETURN(operand, Finish(std::move(attribute)));
    } else if (tokens_.IsOperator("[")) {
      ASSIGN_OR_RETURN(operand, ParseSubscript(std::move(operand)));
    } else if (tokens_.IsOperator("(")) {
      auto call = Make(ExpressionKind::kCall);
      tokens_.Take();
      call->operands.push_back(std::move(operand));
      ASSIGN_OR_RETURN(call->arguments, ParseArguments());
      ASSIGN_OR_RETURN(operand, Finish(std::move(call)));
    } else {
      return operand;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::ParseSubscript(ExpressionPtr operand) {
  auto subscript = Make(ExpressionKind::kIndex);
  tokens_.Take();
  subscript->operands.push_back(std::move(operand));
  // x[1, 2] asks for a tuple.
  const auto tuple = [&]() -> Status {
    auto several = Make(ExpressionKind::kTuple);
    several->operands.push_back(std::move(subscript->operands.back()));
    subscript->operands.pop_back();
    while (tokens_.TakeOperator(",") && !tokens_.IsOperator("]")) {
      ASSIGN_OR_RETURN(ExpressionPtr item, Parse());
      several->operands.push_back(std::move(item));
    }
    ASSIGN_OR_RETURN(ExpressionPtr index, Finish(std::move(several)));
    subscript->operands.push_back(std::move(index));
    return OkStatus();
  };
  const auto part = [&]() -> Status {
    ExpressionPtr value;
    if (!tokens_.IsOperator(":") && !tokens_.IsOperator("]")) {
      ASSIGN_OR_RETURN(value, Parse());
    }
    subscript->operands.push_back(std::move(value));
    return OkStatus();
  };
  TRY(part());
  if (tokens_.TakeOperator(":")) {
    subscript->kind = ExpressionKind::kSlice;
    TRY(part());
    if (tokens_.TakeOperator(":")) TRY(part());
    subscript->operands.resize(4);
  } else if (subscript->operands.back() == nullptr) {
    return tokens_.Fault("an index");
  } else if (tokens_.IsOperator(",")) {
    TRY(tuple());
  }
  TRY(tokens_.ExpectOperator("]"));
  return Finish(std::move(subscript));
}

Result<Arguments> ExpressionParser::ParseArguments() {
  Arguments arguments;
  while (!tokens_.TakeOperator(")")) {
    if (tokens_.TakeOperator("**")) {
      if (arguments.named_spread) return tokens_.Fault("one ** argument");
      ASSIGN_OR_RETURN(arguments.named_spread, Parse());
    } else if (tokens_.TakeOperator("*")) {
      if (arguments.spread) return tokens_.Fault("one * argument");
      ASSIGN_OR_RETURN(arguments.spread, Parse());
    } else if (tokens_.Peek().kind == Token::Kind::kName && tokens_.IsOperator("=", 1)) {
      std::string name = tokens_.Take().text;
      tokens_.Take();
      ASSIGN_OR_RETURN(ExpressionPtr value, Parse());
      arguments.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!arguments.named.empty() || arguments.spread || arguments.named_spread) {
        return tokens_.Fault("no argument by position after those by name");
      }
      ASSIGN_OR_RETURN(ExpressionPtr value, Parse());
      arguments.positional.push_back(std::move(value));
    }
    if (!tokens_.IsOperator(")")) TRY(tokens_.ExpectOperator(","));
  }
  return arguments;
}

Result<ExpressionPtr> ExpressionParser::ParseFiltersAndTests(ExpressionPtr operand) {
  while (true) {
    if (tokens_.IsOperator("|")) {
      auto filter = Make(ExpressionKind::kFilter);
      tokens_.Take();
      ASSIGN_OR_RETURN(filter->text, tokens_.ExpectName("a filter after '|'"));
      filter->operands.push_back(std::move(operand));
      if (tokens_.TakeOperator("(")) {
        ASSIGN_OR_RETURN(filter->arguments, ParseArguments());
      }
      ASSIGN_OR_RETURN(operand, Finish(std::move(filter)));
    } else if (tokens_.IsName("is")) {
      ASSIGN_OR_RETURN(operand, ParseTest(std::move(operand)));
    } else if (tokens_.IsOperator("(")) {
      ASSIGN_OR_RETURN(operand, ParsePostfix(std::move(operand)));
    } else {
      return operand;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::ParseTest(ExpressionPtr operand) {
  auto test = Make(ExpressionKind::kTest);
  tokens_.Take();
  auto negation = tokens_.TakeName("not") ? Make(ExpressionKind::kNot) : nullptr;
  ASSIGN_OR_RETURN(test->text, tokens_.ExpectName("a test after 'is'"));
  test->operands.push_back(std::move(operand));
  const Token& next = tokens_.Peek();
  const bool word = next.kind == Token::Kind::kName && next.text != "else" && next.text != "or" &&
                    next.text != "and" && next.text != "is" && next.text != "if" &&
                    next.text != "in" && next.text != "not";
  const bool value = next.kind == Token::Kind::kString || next.kind == Token::Kind::kInteger ||
                     next.kind == Token::Kind::kFloat || tokens_.IsOperator("[") ||
                     tokens_.IsOperator("{");
  if (tokens_.TakeOperator("(")) {
    ASSIGN_OR_RETURN(test->arguments, ParseArguments());
  } else if (word || value) {  // x is divisibleby 3
    ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    test->arguments.positional.push_back(std::move(argument));
  }
  ASSIGN_OR_RETURN(ExpressionPtr tested, Finish(std::move(test)));
  if (!negation) return tested;
  negation->operands.push_back(std::move(tested));
  return Finish(std::move(negation));
}

}  // namespace weft::jinja
