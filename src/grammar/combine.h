// Schemas that hold together: what allOf, $ref and keywords beside them come to as one schema.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/keywords.h"

namespace weft::grammar {

// A schema without $ref, allOf, anyOf and oneOf, and the lists of which one alternative each holds
// as well.
struct Combined {
  boost::json::object plain;  // without annotations
  std::vector<boost::json::array> choices;
  bool never = false;  // nothing is valid
};

class Combiner {
 public:
  // `root` is what references name places of; it outlives this.
  explicit Combiner(const boost::json::value& root) : root_(root) {}

  struct Place {
    const boost::json::value* schema = nullptr;
    Pointer at;
  };
  // What "#/$defs/a" names.
  Result<Place> Resolve(const boost::json::value& reference, const Pointer& at) const;

  // Errors: what cannot be combined, by keyword and pointer; references in a circle.
  Result<Combined> Combine(const boost::json::value& schema, const Pointer& at) const {
    return Combine(schema, at, 0);
  }

 private:
  Result<Combined> Combine(const boost::json::value& schema, const Pointer& at, size_t depth) const;
  Status CombineAll(const boost::json::value& schemas, const Pointer& at, size_t depth,
                    Combined& out) const;
  Status Add(Combined more, const Pointer& at, Combined& out) const;
  // Whether the alternatives exclude each other, so that one at most holds.
  Status CheckApart(const boost::json::array& alternatives, const Pointer& at) const;
  bool AreApart(const Combined& a, const Combined& b, size_t depth) const;

  const boost::json::value& root_;
};

// Both hold. `out` is `never` where both cannot. Errors: keywords that cannot be put together.
Status Merge(const boost::json::object& more, const Pointer& at, Combined& out);

}  // namespace weft::grammar
