// What `weft grammar` does: grammars of structured output by themselves, without a model's numbers.
#pragma once

#include <iosfwd>
#include <memory>

#include "base/result.h"
#include "grammar/token_trie.h"

namespace weft::apps {

// One JSON object a line in, one a line out (docs/structured-output.md):
//
//   {"json": SCHEMA, "check": ["{}"], "sample": 2, "seed": 7}
//   {"accepted": [false], "failed_at": [1], "must_follow": ["\"a\":"],
//    "samples": ["{\"a\":1}", "{\"a\": 4}"]}
//
// Beside "json" there are "json_object", "regex", "choice" and "grammar". A grammar that is refused
// is {"error": SENTENCE}. Samples are random texts, drawn token by token of the vocabulary.
// Errors: a line that is none of this, with its number; the lines before it are written.
Status RunGrammarLines(std::shared_ptr<const grammar::TokenTrie> trie, std::istream& in,
                       std::ostream& out);

}  // namespace weft::apps
