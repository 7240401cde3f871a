// POST /v1/responses, OpenAI's Responses API: the request body, parsed and validated.
// docs/responses.md shows every field.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>

#include "api/openai_request.h"
#include "api/request_fields.h"
#include "base/bytes.h"

namespace weft::api {

struct ResponsesRequest {
  ChatRequest chat;          // without messages: what came before belongs to them
  boost::json::array items;  // of `input` (ReadItems)
  std::string instructions;  // "": none
  std::string previous;      // the response that it goes on from; "": none
  bool stores = true;        // the response can be asked for and gone on from
  bool summarises = false;   // thoughts are told as their summary
  boost::json::object told;  // fields that the response repeats
};

FieldTable ResponsesFields();

ApiResult<ResponsesRequest> ParseResponsesRequest(ByteSpan body,
                                                  const sampling::Parameters& defaults = {});

}  // namespace weft::api
