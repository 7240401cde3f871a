// Python's two ways to format: `'%5.1f' % x` and `'{:>5}'.format(x)`.
#pragma once

#include "text/jinja/eval.h"

namespace weft::jinja {

// `format` % `values`, where a tuple gives several and an object gives %(name)s.
Result<Text> FormatPercent(Evaluator& evaluator, const Text& format, const Value& values);

// format.format(arguments).
Result<Text> FormatBraces(Evaluator& evaluator, const Text& format, const CallArguments& arguments);

}  // namespace weft::jinja
