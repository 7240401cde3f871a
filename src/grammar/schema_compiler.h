// The state of AddSchema (schema.h): schemas that were met already, and what each type comes to.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/combine.h"
#include "grammar/json_rules.h"
#include "grammar/keywords.h"
#include "grammar/rules.h"

namespace weft::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(const boost::json::value& root, Rules& rules)
      : combiner_(root), rules_(rules), json_(rules) {}

  // What the schema at this place comes to.
  Result<ExprId> Compile(const boost::json::value& schema, const Pointer& at);

 private:
  using Object = boost::json::object;

  Result<ExprId> CompileBody(const Object& schema, const Pointer& at);
  Result<ExprId> CompileChoice(const boost::json::value& alternatives, const Pointer& at);
  Result<ExprId> CompileCombined(const Object& schema, const Pointer& at);
  // Without $ref, allOf, anyOf and oneOf.
  Result<ExprId> CompilePlain(const Object& schema, const Pointer& at);
  Result<ExprId> CompileValues(const Object& schema, const Pointer& at);
  Result<ExprId> CompileString(const Object& schema, const Pointer& at);
  Result<ExprId> CompileNumber(const Object& schema, const Pointer& at, bool is_whole);
  Result<ExprId> CompileArray(const Object& schema, const Pointer& at);
  Result<ExprId> CompileObject(const Object& schema, const Pointer& at);

  struct Property {
    std::string name;
    ExprId member = 0;  // the key, ":" and the value
    bool is_required = false;
  };
  struct Properties {
    std::vector<Property> named;
    std::optional<ExprId> other;  // a member that has another name
    bool never = false;
  };
  Result<Properties> ReadProperties(const Object& schema, const Pointer& at);
  ExprId AddMembers(const Properties& properties);

  const Combiner combiner_;
  Rules& rules_;
  JsonRules json_;
  std::unordered_map<std::string, RuleId> met_;  // by the schema's text
  size_t depth_ = 0, count_ = 0;
};

}  // namespace weft::grammar
