// What somebody who mistyped a name may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weft {

// The candidate that the fewest insertions, deletions, replacements and swaps of neighbours make of
// `text`, letters in either case alike; "" where that would be more than a third of the longer one.
std::string NearestName(std::string_view text, std::span<const std::string> candidates);

// " Did you mean 'x'?", or "".
std::string DidYouMean(std::string_view text, std::span<const std::string> candidates);

}  // namespace weft
