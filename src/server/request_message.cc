#include "server/request_message.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace weft::server {
namespace {

namespace pb = wire::pb;

constexpr ErrorCode kCodes[] = {
    ErrorCode::kInvalidArgument, ErrorCode::kInvalidData,      ErrorCode::kUnsupported,
    ErrorCode::kNotFound,        ErrorCode::kAlreadyExists,    ErrorCode::kLimitExceeded,
    ErrorCode::kOutOfMemory,     ErrorCode::kUnavailable,      ErrorCode::kTimeout,
    ErrorCode::kCancelled,       ErrorCode::kPermissionDenied, ErrorCode::kIo};

Error Bad(const std::string& what) {
  return Error(ErrorCode::kInvalidData, "A message about requests " + what + ".");
}

template <typename Number>
std::vector<Number> ListOf(const google::protobuf::RepeatedField<Number>& field) {
  return {field.begin(), field.end()};
}

// The bindings name every field: a new one has to be sent as well before this compiles.
void FillSampling(const sampling::Parameters& parameters, pb::SubmitRequest::Sampling& out) {
  const auto& [temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty,
               frequency_penalty, logit_bias, seed] = parameters;
  out.set_temperature(temperature);
  out.set_top_k(top_k);
  out.set_top_p(top_p);
  out.set_min_p(min_p);
  out.set_repetition_penalty(repetition_penalty);
  out.set_presence_penalty(presence_penalty);
  out.set_frequency_penalty(frequency_penalty);
  for (const auto& [token_id, bias] : logit_bias) {
    out.add_bias_tokens(token_id);
    out.add_biases(bias);
  }
  if (seed) out.set_seed(*seed);
}

sampling::Parameters ReadSampling(const pb::SubmitRequest::Sampling& message) {
  sampling::Parameters parameters;
  parameters.temperature = message.temperature();
  parameters.top_k = message.top_k();
  parameters.top_p = message.top_p();
  parameters.min_p = message.min_p();
  parameters.repetition_penalty = message.repetition_penalty();
  parameters.presence_penalty = message.presence_penalty();
  parameters.frequency_penalty = message.frequency_penalty();
  for (int i = 0; i < message.biases_size(); ++i)
    parameters.logit_bias.push_back({message.bias_tokens(i), message.biases(i)});
  if (message.has_seed()) parameters.seed = message.seed();
  return parameters;
}

// How many there are, where none or one for each token is right.
bool IsAllOrNone(int count, int tokens) {
  return count == 0 || count == tokens;
}

}  // namespace

pb::SessionTrace ToMessage(const swarm::SessionTrace& trace) {
  pb::SessionTrace message;
  message.set_session(trace.session.value());
  message.set_first_generation(trace.first_generation);
  message.set_last_generation(trace.last_generation);
  return message;
}

swarm::SessionTrace FromMessage(const pb::SessionTrace& message) {
  return {swarm::SessionId(message.session()), message.first_generation(),
          message.last_generation()};
}

void FillSubmit(const swarm::Request& request, uint64_t number, pb::SubmitRequest& out) {
  const auto& [id, client, prompt_ids, salt, keep, key, answer_ids, resume, logprobs_are_known,
               was_accepted, max_tokens, parameters, stop_ids, marks, constraint, top_logprobs,
               want_logprobs, want_logits, want_last_row] = request;
  out.set_number(number);
  out.set_client(client);
  out.mutable_prompt_ids()->Assign(prompt_ids.begin(), prompt_ids.end());
  out.set_salt(salt);
  out.set_keep(keep);
  out.set_key(key);
  out.mutable_answer_ids()->Assign(answer_ids.begin(), answer_ids.end());
  if (resume) *out.mutable_resume() = ToMessage(*resume);
  out.set_logprobs_are_known(logprobs_are_known);
  out.set_was_accepted(was_accepted);
  out.set_max_tokens(max_tokens);
  FillSampling(parameters, *out.mutable_sampling());
  out.mutable_stop_ids()->Assign(stop_ids.begin(), stop_ids.end());
  out.mutable_marks()->Assign(marks.begin(), marks.end());
  if (constraint != nullptr) out.set_constraint(constraint->Source());
  out.set_top_logprobs(top_logprobs);
  out.set_want_logprobs(want_logprobs);
  out.set_want_logits(want_logits);
  out.set_want_last_row(want_last_row);
}

Result<SubmittedRequest> ReadSubmit(pb::SubmitRequest message) {
  const pb::SubmitRequest::Sampling& sampling = message.sampling();
  if (message.number() == 0) return Bad("submits one with the number 0");
  if (sampling.bias_tokens_size() != sampling.biases_size())
    return Bad("has " + std::to_string(sampling.biases_size()) + " biases for " +
               std::to_string(sampling.bias_tokens_size()) + " tokens; expected as many of both");
  SubmittedRequest submitted;
  swarm::Request& request = submitted.request;
  request.client = std::move(*message.mutable_client());
  request.prompt_ids = ListOf(message.prompt_ids());
  request.salt = std::move(*message.mutable_salt());
  request.keep = std::move(*message.mutable_keep());
  request.key = std::move(*message.mutable_key());
  request.answer_ids = ListOf(message.answer_ids());
  if (message.has_resume()) request.resume = FromMessage(message.resume());
  request.logprobs_are_known = message.logprobs_are_known();
  request.was_accepted = message.was_accepted();
  request.max_tokens = message.max_tokens();
  request.sampling = ReadSampling(sampling);
  request.stop_ids = ListOf(message.stop_ids());
  request.marks = ListOf(message.marks());
  request.top_logprobs = message.top_logprobs();
  request.want_logprobs = message.want_logprobs();
  request.want_logits = message.want_logits();
  request.want_last_row = message.want_last_row();
  submitted.constraint_source = std::move(*message.mutable_constraint());
  return submitted;
}

void AddToken(const swarm::EmitToken& token, pb::RequestEvent& out) {
  const int before = out.token_ids_size();
  if (before == 0) out.set_first(token.index);
  out.add_token_ids(token.token_id);
  // What is 0 so far is not sent: mostly nobody asked for it.
  const auto add = [before](float value, google::protobuf::RepeatedField<float>& values) {
    if (value == 0 && values.empty()) return;
    values.Resize(before, 0);
    values.Add(value);
  };
  add(token.logprob, *out.mutable_logprobs());
  add(token.margin, *out.mutable_margins());
  if (token.top.empty() && out.top_size() == 0) return;
  while (out.top_size() < before) out.add_top();
  pb::RequestEvent::TopLogprobs& top = *out.add_top();
  for (const swarm::TokenLogprob& each : token.top) {
    top.add_token_ids(each.token_id);
    top.add_logprobs(each.logprob);
  }
}

Result<std::vector<swarm::EmitToken>> ReadTokens(const pb::RequestEvent& message) {
  const int count = message.token_ids_size();
  if (!IsAllOrNone(message.logprobs_size(), count) || !IsAllOrNone(message.margins_size(), count) ||
      !IsAllOrNone(message.top_size(), count))
    return Bad("has " + std::to_string(message.logprobs_size()) + " logprobs, " +
               std::to_string(message.margins_size()) + " margins and " +
               std::to_string(message.top_size()) + " lists of the best ones for " +
               std::to_string(count) + " tokens; expected none, or one for each");
  if (message.first() > UINT32_MAX - static_cast<uint32_t>(count))
    return Bad("has a token " + std::to_string(message.first()));
  std::vector<swarm::EmitToken> tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    swarm::EmitToken& token = tokens[static_cast<size_t>(i)];
    token.index = message.first() + static_cast<uint32_t>(i);
    token.token_id = message.token_ids(i);
    if (message.logprobs_size() > 0) token.logprob = message.logprobs(i);
    if (message.margins_size() > 0) token.margin = message.margins(i);
    if (message.top_size() == 0) continue;
    const pb::RequestEvent::TopLogprobs& top = message.top(i);
    if (top.token_ids_size() != top.logprobs_size())
      return Bad("names " + std::to_string(top.token_ids_size()) + " tokens with " +
                 std::to_string(top.logprobs_size()) + " logprobs; expected as many of both");
    for (int k = 0; k < top.token_ids_size(); ++k)
      token.top.push_back({top.token_ids(k), top.logprobs(k)});
  }
  return tokens;
}

void AddRows(const swarm::EmitLogits& rows, size_t piece_bytes,
             std::deque<pb::RequestEvent::HeadRows>& out) {
  const size_t row_bytes = rows.logits.byte_count() / std::max(rows.rows, 1u);
  const auto at_once =
      static_cast<uint32_t>(std::max<size_t>(piece_bytes / std::max<size_t>(row_bytes, 1), 1));
  for (uint32_t done = 0; done < rows.rows;) {
    const uint32_t count = std::min(at_once, rows.rows - done);
    pb::RequestEvent::HeadRows& piece = out.emplace_back();
    piece.set_first_position(rows.first_position + done);
    piece.set_rows(count);
    piece.set_values(
        std::string(AsText(rows.logits.Sub(done * row_bytes, count * row_bytes).bytes())));
    done += count;
  }
}

Result<swarm::EmitLogits> ReadRows(const pb::RequestEvent::HeadRows& message) {
  const size_t bytes = message.values().size();
  if (message.rows() == 0 || bytes == 0 || bytes % (message.rows() * sizeof(float)) != 0)
    return Bad("has " + std::to_string(bytes) + " bytes for " + std::to_string(message.rows()) +
               " rows; expected as many numbers for each row");
  swarm::EmitLogits rows;
  rows.first_position = message.first_position();
  rows.rows = message.rows();
  rows.logits = Slice::OfText(message.values());
  return rows;
}

pb::RequestEvent::RequestProgress ToMessage(const swarm::RequestProgress& progress) {
  const auto& [waiting, requests_ahead, prompt_tokens, prompt_done] = progress;
  pb::RequestEvent::RequestProgress out;
  out.set_waiting(waiting);
  out.set_requests_ahead(requests_ahead);
  out.set_prompt_tokens(prompt_tokens);
  out.set_prompt_done(prompt_done);
  return out;
}

swarm::RequestProgress FromMessage(const pb::RequestEvent::RequestProgress& message) {
  return {message.waiting(), message.requests_ahead(), message.prompt_tokens(),
          std::min(message.prompt_done(), message.prompt_tokens())};
}

pb::RequestEnd ToMessage(const swarm::FinishRequest& end) {
  const auto& [id, reason, error, prompt_tokens, cached_prompt_tokens, generated_tokens,
               lost_groups, has_no_room, over_share] = end;
  pb::RequestEnd out;
  out.set_reason(static_cast<pb::RequestEnd::Reason>(reason));
  if (error) {
    out.set_error_code(std::string(ErrorCodeName(error->code())));
    out.set_error(error->message());
  }
  out.set_prompt_tokens(prompt_tokens);
  out.set_cached_prompt_tokens(cached_prompt_tokens);
  out.set_generated_tokens(generated_tokens);
  if (lost_groups) out.set_lost_groups(*lost_groups);
  out.set_has_no_room(has_no_room);
  out.set_over_share(over_share);
  return out;
}

swarm::FinishRequest FromMessage(const pb::RequestEnd& message) {
  swarm::FinishRequest end;
  const bool is_known = message.reason() >= 0 && message.reason() <= pb::RequestEnd::CANCELLED;
  end.reason =
      is_known ? static_cast<swarm::FinishReason>(message.reason()) : swarm::FinishReason::kError;
  if (end.reason == swarm::FinishReason::kError) {
    const auto* code = std::ranges::find(kCodes, message.error_code(),
                                         [](ErrorCode each) { return ErrorCodeName(each); });
    end.error = Error(code == std::end(kCodes) ? ErrorCode::kUnavailable : *code,
                      message.error().empty() ? "The leader of the cell ended it without a word."
                                              : message.error());
  }
  end.prompt_tokens = message.prompt_tokens();
  end.cached_prompt_tokens = message.cached_prompt_tokens();
  end.generated_tokens = message.generated_tokens();
  if (message.has_lost_groups()) end.lost_groups = message.lost_groups();
  end.has_no_room = message.has_no_room();
  end.over_share = message.over_share();
  return end;
}

}  // namespace weft::server
