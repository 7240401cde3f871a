// Fields that requests of several of OpenAI's endpoints have under the same names.
#pragma once

#include <optional>
#include <string>

#include "api/api_error.h"
#include "api/field_reader.h"
#include "sampling/draw.h"

namespace weft::api {

// Reads temperature, top_p, top_k, min_p, penalties and seed. An absent field stays as it is.
void ReadSampling(FieldReader& fields, sampling::Parameters* sampling);
// Reads logit_bias: an object of token ids, each once.
std::optional<ApiError> ReadLogitBias(const boost::json::value* bias,
                                      sampling::Parameters* sampling);
// Tells whether stream_options asks for `include_usage`.
bool ReadIncludeUsage(FieldReader& fields);
// Gives cache_salt, or "" without one.
std::string ReadCacheSalt(FieldReader& fields);
// Gives prompt_cache_key, or "" without one.
std::string ReadCacheKey(FieldReader& fields);

}  // namespace weft::api
