// Named keys as JSON: what /api/keys takes and gives, and `weft keys list --json` prints.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string_view>

#include "api/openai_request.h"
#include "store/key.h"
#include "store/usage.h"

namespace weft::server {

// {"name": "maths", "role": "user", "per_minute": 60, "tokens_per_day": 200000, "at_once": 2,
// "models": ["weft-tiny"], "expires": "90d"}; all but the name may be left out or null. 400 with
// the field's name.
api::ApiResult<store::NewKey> ParseNewKey(std::string_view body, int64_t now_ms);

// `today`: since the day began in UTC. Times are RFC 3339; "state" is "active", "expired" or
// "ended". Neither the key nor its hash.
boost::json::object KeyJson(const store::Key& key, const store::Usage& today, int64_t now_ms);

}  // namespace weft::server
