// Fields that requests of several of OpenAI's endpoints have under the same names.
#pragma once

#include <optional>
#include <string>

#include "api/api_error.h"
#include "api/field_reader.h"
#include "sampling/draw.h"

namespace weft::api {

// temperature, top_p, top_k, min_p, penalties and seed. What is absent stays as it is.
void ReadSampling(FieldReader& fields, sampling::Parameters* sampling);
// logit_bias: an object of token ids, each once.
std::optional<ApiError> ReadLogitBias(const boost::json::value* bias,
                                      sampling::Parameters* sampling);
// stream_options: whether `include_usage` is asked for.
bool ReadIncludeUsage(FieldReader& fields);
// cache_salt; "": none.
std::string ReadCacheSalt(FieldReader& fields);
// prompt_cache_key; "": none.
std::string ReadCacheKey(FieldReader& fields);

}  // namespace weft::api
