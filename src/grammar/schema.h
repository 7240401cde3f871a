// JSON Schema (draft 2020-12) as rules for the JSON texts that fit it. The list of keywords
// is in docs/structured-output.md; what is not followed is refused by its name and JSON pointer,
// never passed over.
//
// Texts are a part of what a validator accepts: properties come in the order of the schema, those
// that it does not name only where it allows them, and strings, numbers and white space are written
// as json_rules.h says.
#pragma once

#include <boost/json/value.hpp>

#include "base/result.h"
#include "grammar/rules.h"
#include "grammar/schema_limits.h"

namespace weft::grammar {

// The rule for the whole text. Errors: kUnsupported and kInvalidArgument with the pointer of the
// keyword ("#/properties/a/pattern"), kLimitExceeded.
Result<RuleId> AddSchema(const boost::json::value& schema, Rules& rules);
// Any JSON object.
RuleId AddAnyObject(Rules& rules);

}  // namespace weft::grammar
