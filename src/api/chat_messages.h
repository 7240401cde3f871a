// Messages of conversations as chat templates want them, whatever form they came in.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

namespace weft::api {

// A message of the assistant with `reasoning_content` or `reasoning`: under all the names that
// templates look for.
void NameReasoning(boost::json::object& message);

// The arguments of a call that are JSON in a string become the object that templates are written
// for. What is no object in JSON stays the text that it is: a model wrote it, and may have erred.
void ReadArguments(boost::json::value& arguments);

// {"role": role, "content": text}
boost::json::object MessageOf(const char* role, std::string text);

}  // namespace weft::api
