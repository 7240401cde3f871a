// JSON Schema (draft 2020-12) as rules for the JSON texts that fit it. The list of keywords is in
// docs/structured-output.md. A schema with anything else is refused by the keyword's name and JSON
// pointer.
//
// The texts are a part of what a validator accepts. Properties come in the order of the schema, and
// others only where it allows them. Strings, numbers and white space are written as json_rules.h
// says.
#pragma once

#include <boost/json/value.hpp>

#include "base/result.h"
#include "grammar/rules.h"
#include "grammar/schema_limits.h"

namespace weft::grammar {

// Gives the rule for the whole text. Errors: kUnsupported and kInvalidArgument with the pointer of
// the keyword ("#/properties/a/pattern"), kLimitExceeded.
Result<RuleId> AddSchema(const boost::json::value& schema, Rules& rules);
// Gives the rule for any JSON object.
RuleId AddAnyObject(Rules& rules);

}  // namespace weft::grammar
