// Which model a request's body asks, found without reading the rest of it: requests of several
// megabytes are read on threads, and this happens on the loop.
#pragma once

#include <string>
#include <string_view>

namespace weft::server {

// The text of "model" in the outermost object; "" where there is none, or the body is no JSON that
// can be followed so far. Who reads all of the body says what is wrong with it.
std::string FindModelField(std::string_view body);

}  // namespace weft::server
