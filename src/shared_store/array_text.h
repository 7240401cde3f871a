// Arrays as PostgreSQL reads them: "{1,2,3}".
#pragma once

#include <string>

namespace weft::shared_store {

// `write` gives the text of an element; one with other characters than letters and digits is in
// quotes.
template <typename Elements, typename Write>
std::string ArrayOf(const Elements& elements, Write write) {
  std::string text = "{";
  for (const auto& element : elements) text += (text.size() > 1 ? "," : "") + write(element);
  return text + "}";
}

}  // namespace weft::shared_store
