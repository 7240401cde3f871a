// Statements of chat templates. Expressions are in parse_expression.cc.
#include "text/jinja/parser.h"

namespace weft::jinja {
namespace {

using StatementKind = Statement::Kind;
using StatementPtr = std::unique_ptr<const Statement>;
using Names = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens)
      : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Result<Block> ParseAll() {
    ASSIGN_OR_RETURN(Block block, ParseBlock({}));
    if (tokens_.Peek().kind != Token::Kind::kEnd) return tokens_.Fault("text or a tag");
    return block;
  }

 private:
  // Up to {% name %} for one of `ends`, whose "{%" stays unread; with none, up to the end.
  Result<Block> ParseBlock(Names ends) {
    if (++nesting_ > kMaxSyntaxDepth) return tokens_.Fault("fewer nested blocks");
    Block block;
    while (tokens_.Peek().kind != Token::Kind::kEnd) {
      const bool ended = std::any_of(ends.begin(), ends.end(), [&](std::string_view name) {
        return tokens_.Peek().kind == Token::Kind::kBlockBegin && tokens_.IsName(name, 1);
      });
      if (ended) break;
      ASSIGN_OR_RETURN(StatementPtr statement, ParseStatement());
      block.push_back(std::move(statement));
    }
    --nesting_;
    return block;
  }

  Result<StatementPtr> ParseStatement() {
    auto statement = std::make_unique<Statement>();
    statement->line = tokens_.Peek().line;
    if (tokens_.Peek().kind == Token::Kind::kText) {
      statement->text = tokens_.Take().text;
      return StatementPtr(std::move(statement));
    }
    if (tokens_.Peek().kind == Token::Kind::kPrintBegin) {
      tokens_.Take();
      statement->kind = StatementKind::kPrint;
      ASSIGN_OR_RETURN(statement->value, expressions_.ParseTuple());
      TRY(tokens_.Expect(Token::Kind::kPrintEnd, "}}"));
      return StatementPtr(std::move(statement));
    }
    TRY(tokens_.Expect(Token::Kind::kBlockBegin, "text or a tag"));
    TRY(ParseTag(*statement));
    return StatementPtr(std::move(statement));
  }

  Status ParseTag(Statement& statement) {
    if (tokens_.Peek().kind != Token::Kind::kName) return tokens_.Fault("a statement");
    static constexpr std::pair<std::string_view, Status (StatementParser::*)(Statement&)> kTags[] =
        {{"if", &StatementParser::ParseIf},
         {"for", &StatementParser::ParseFor},
         {"set", &StatementParser::ParseSet},
         {"macro", &StatementParser::ParseMacro},
         {"call", &StatementParser::ParseCall},
         {"filter", &StatementParser::ParseFilter},
         {"with", &StatementParser::ParseWith},
         {"do", &StatementParser::ParseDo},
         {"break", &StatementParser::ParseBreak},
         {"continue", &StatementParser::ParseContinue},
         {"generation", &StatementParser::ParseGeneration},
         {"autoescape", &StatementParser::ParseAutoescape}};
    for (const auto& [name, parse] : kTags) {
      if (tokens_.IsName(name)) {
        tokens_.Take();
        return (this->*parse)(statement);
      }
    }
    for (const std::string_view name : {"include", "import", "from", "extends", "block"}) {
      if (tokens_.IsName(name)) {
        return Error(ErrorCode::kUnsupported,
                     "Line " + std::to_string(tokens_.Peek().line) + " of the chat template: {% " +
                         std::string(name) + " %} is not available; a chat template stands alone.");
      }
    }
    return tokens_.Fault("a statement");
  }

  Status EndTag() { return tokens_.Expect(Token::Kind::kBlockEnd, "%}"); }

  // {% name %}
  Status CloseTag(std::string_view name) {
    if (tokens_.Peek().kind != Token::Kind::kBlockBegin || !tokens_.IsName(name, 1)) {
      return tokens_.Fault("{% " + std::string(name) + " %}");
    }
    tokens_.Take();
    tokens_.Take();
    // {% endmacro name %} is allowed.
    if (tokens_.Peek().kind == Token::Kind::kName) tokens_.Take();
    return EndTag();
  }

  Status ParseIf(Statement& statement) {
    statement.kind = StatementKind::kIf;
    while (true) {
      Statement::Branch branch;
      ASSIGN_OR_RETURN(branch.condition, expressions_.ParseTuple());
      TRY(EndTag());
      ASSIGN_OR_RETURN(branch.body, ParseBlock({"elif", "else", "endif"}));
      statement.branches.push_back(std::move(branch));
      if (!tokens_.IsName("elif", 1)) break;
      tokens_.Take();
      tokens_.Take();
    }
    if (tokens_.IsName("else", 1)) {
      TRY(CloseTag("else"));
      ASSIGN_OR_RETURN(statement.body, ParseBlock({"endif"}));
    }
    return CloseTag("endif");
  }

  // a, or a, (b, c)
  Result<Target> ParseTarget(bool may_be_tuple = true) {
    if (++nesting_ > kMaxSyntaxDepth) return tokens_.Fault("fewer nested targets");
    Target first;
    if (tokens_.TakeOperator("(")) {
      ASSIGN_OR_RETURN(first, ParseTarget());
      TRY(tokens_.ExpectOperator(")"));
    } else {
      for (const std::string_view literal : {"true", "True", "false", "False", "none", "None"}) {
        if (tokens_.IsName(literal)) return tokens_.Fault("the name of a variable");
      }
      ASSIGN_OR_RETURN(first.name, tokens_.ExpectName("the name of a variable"));
    }
    --nesting_;
    if (!may_be_tuple || !tokens_.IsOperator(",")) return first;
    Target row;
    row.parts.push_back(std::move(first));
    while (tokens_.TakeOperator(",")) {
      if (tokens_.IsName("in") || tokens_.IsOperator("=") || tokens_.IsOperator(")")) break;
      ASSIGN_OR_RETURN(Target part, ParseTarget(false));
      row.parts.push_back(std::move(part));
    }
    return row;
  }

  Status ParseFor(Statement& statement) {
    statement.kind = StatementKind::kFor;
    ASSIGN_OR_RETURN(statement.target, ParseTarget());
    if (!tokens_.TakeName("in")) return tokens_.Fault("'in'");
    ASSIGN_OR_RETURN(statement.value, expressions_.ParseTuple(false));
    if (tokens_.TakeName("if")) {
      ASSIGN_OR_RETURN(statement.condition, expressions_.Parse());
    }
    statement.is_recursive = tokens_.TakeName("recursive");
    TRY(EndTag());
    ASSIGN_OR_RETURN(statement.body, ParseBlock({"else", "endfor"}));
    if (tokens_.IsName("else", 1)) {
      TRY(CloseTag("else"));
      ASSIGN_OR_RETURN(statement.otherwise, ParseBlock({"endfor"}));
    }
    return CloseTag("endfor");
  }

  Status ParseSet(Statement& statement) {
    statement.kind = StatementKind::kSet;
    ASSIGN_OR_RETURN(statement.target, ParseTarget());
    if (statement.target.parts.empty() && tokens_.TakeOperator(".")) {
      ASSIGN_OR_RETURN(statement.target_attribute, tokens_.ExpectName("a name after '.'"));
    }
    if (tokens_.TakeOperator("=")) {
      ASSIGN_OR_RETURN(statement.value, expressions_.ParseTuple());
      return EndTag();
    }
    statement.kind = StatementKind::kSetBlock;
    while (tokens_.TakeOperator("|")) TRY(ParseOneFilter(statement));
    TRY(EndTag());
    ASSIGN_OR_RETURN(statement.body, ParseBlock({"endset"}));
    return CloseTag("endset");
  }

  Status ParseOneFilter(Statement& statement) {
    Statement::Filter filter;
    ASSIGN_OR_RETURN(filter.name, tokens_.ExpectName("a filter"));
    if (tokens_.TakeOperator("(")) {
      ASSIGN_OR_RETURN(filter.arguments, expressions_.ParseArguments());
    }
    statement.filters.push_back(std::move(filter));
    return OkStatus();
  }

  // After "(": up to and with ")".
  Status ParseParameters(Statement& statement) {
    while (!tokens_.TakeOperator(")")) {
      Parameter parameter;
      ASSIGN_OR_RETURN(parameter.name, tokens_.ExpectName("the name of a parameter"));
      if (tokens_.TakeOperator("=")) {
        ASSIGN_OR_RETURN(parameter.fallback, expressions_.Parse());
      }
      statement.parameters.push_back(std::move(parameter));
      if (!tokens_.IsOperator(")")) TRY(tokens_.ExpectOperator(","));
    }
    return OkStatus();
  }

  Status ParseCallableBody(Statement& statement, std::string_view end) {
    TRY(EndTag());
    const size_t begin = tokens_.position();
    ASSIGN_OR_RETURN(statement.body, ParseBlock({end}));
    statement.takes_varargs = tokens_.SeenName("varargs", begin);
    statement.takes_kwargs = tokens_.SeenName("kwargs", begin);
    return CloseTag(end);
  }

  Status ParseMacro(Statement& statement) {
    statement.kind = StatementKind::kMacro;
    ASSIGN_OR_RETURN(statement.text, tokens_.ExpectName("the name of a macro"));
    TRY(tokens_.ExpectOperator("("));
    TRY(ParseParameters(statement));
    return ParseCallableBody(statement, "endmacro");
  }

  Status ParseCall(Statement& statement) {
    statement.kind = StatementKind::kCall;
    if (tokens_.TakeOperator("(")) TRY(ParseParameters(statement));
    ASSIGN_OR_RETURN(statement.value, expressions_.Parse());
    if (statement.value->kind != Expression::Kind::kCall) return tokens_.Fault("a call of a macro");
    return ParseCallableBody(statement, "endcall");
  }

  Status ParseFilter(Statement& statement) {
    statement.kind = StatementKind::kFilter;
    do {
      TRY(ParseOneFilter(statement));
    } while (tokens_.TakeOperator("|"));
    TRY(EndTag());
    ASSIGN_OR_RETURN(statement.body, ParseBlock({"endfilter"}));
    return CloseTag("endfilter");
  }

  Status ParseWith(Statement& statement) {
    statement.kind = StatementKind::kWith;
    while (tokens_.Peek().kind != Token::Kind::kBlockEnd) {
      Statement::Assignment assignment;
      ASSIGN_OR_RETURN(assignment.target, ParseTarget());
      TRY(tokens_.ExpectOperator("="));
      ASSIGN_OR_RETURN(assignment.value, expressions_.Parse());
      statement.assignments.push_back(std::move(assignment));
      if (!tokens_.TakeOperator(",")) break;
    }
    TRY(EndTag());
    ASSIGN_OR_RETURN(statement.body, ParseBlock({"endwith"}));
    return CloseTag("endwith");
  }

  Status ParseDo(Statement& statement) {
    statement.kind = StatementKind::kDo;
    ASSIGN_OR_RETURN(statement.value, expressions_.ParseTuple());
    return EndTag();
  }

  Status ParseBreak(Statement& statement) {
    statement.kind = StatementKind::kBreak;
    return EndTag();
  }

  Status ParseContinue(Statement& statement) {
    statement.kind = StatementKind::kContinue;
    return EndTag();
  }

  // transformers marks what the assistant writes; it prints its body.
  Status ParseGeneration(Statement& statement) {
    statement.kind = StatementKind::kBlock;
    TRY(EndTag());
    ASSIGN_OR_RETURN(statement.body, ParseBlock({"endgeneration"}));
    return CloseTag("endgeneration");
  }

  // Chat templates are no HTML: only the setting that they have anyway.
  Status ParseAutoescape(Statement& statement) {
    statement.kind = StatementKind::kBlock;
    if (!tokens_.TakeName("false") && !tokens_.TakeName("False")) {
      return Error(ErrorCode::kUnsupported, "Line " + std::to_string(statement.line) +
                                                " of the chat template: {% autoescape %} is "
                                                "available with the literal false only.");
    }
    TRY(EndTag());
    ASSIGN_OR_RETURN(statement.body, ParseBlock({"endautoescape"}));
    return CloseTag("endautoescape");
  }

  TokenReader tokens_;
  ExpressionParser expressions_;
  int nesting_ = 0;
};

}  // namespace

Result<Block> ParseTemplate(std::vector<Token> tokens) {
  return StatementParser(std::move(tokens)).ParseAll();
}

}  // namespace weft::jinja
