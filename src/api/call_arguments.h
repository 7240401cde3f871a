// The arguments of a call as a model spells them, held to the schema of the tool.
//
//   {"city": {"type": "string"}, "days": {"type": "integer"}} of which only "city" is required:
//   {"city": "Bern", "days": 5}                                    in JSON
//   <parameter=city>\nBern\n</parameter>\n<parameter=days>\n5\n</parameter>     in tags
//
// Where values are no JSON, a string may be any text but what ends one; `enum` alone holds it.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/call_spelling.h"
#include "grammar/rules.h"

namespace weft::api {

class CallArguments {
 public:
  // Both `spelling` and `rules` outlive this.
  CallArguments(const chat::CallSpelling& spelling, grammar::Rules& rules)
      : spelling_(spelling), rules_(rules) {}

  // Gives the rule for all that stands behind a name and in front of what closes the call. `schema`
  // is nullptr for a function without arguments. Errors: what of the schema cannot be followed, by
  // keyword and pointer.
  Result<grammar::ExprId> Of(const boost::json::value* schema);
  // Gives the rule for any arguments.
  grammar::ExprId Any();

 private:
  struct Argument {
    std::string name;
    grammar::ExprId value = 0;  // with what stands between name and value, and what ends it
    bool is_required = false;
  };

  Result<grammar::ExprId> Spelled(const boost::json::object& schema);
  Result<grammar::ExprId> Value(const boost::json::value& schema, const boost::json::object& root,
                                const std::string& name);
  Result<grammar::ExprId> StringValue(const boost::json::value& schema, const std::string& name);
  grammar::ExprId Other(grammar::ExprId json) const;
  grammar::ExprId AnyString();
  grammar::ExprId AnyValue();
  grammar::ExprId Sequence(const std::vector<Argument>& arguments) const;

  const chat::CallSpelling& spelling_;
  grammar::Rules& rules_;
  std::optional<grammar::ExprId> any_string_, any_value_;
};

}  // namespace weft::api
