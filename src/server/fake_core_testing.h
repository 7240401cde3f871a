// For tests: a core whose answers a test drives token by token.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/generator.h"

namespace weft::server {

// Token i of the answer to {p, ...} with seed s is 100 p + 10 s + i, whatever computes it.
class FakeCore : public Generator {
 public:
  swarm::RequestId Submit(swarm::Request request, RequestCallbacks callbacks) override {
    const swarm::RequestId id = last_id_ = last_id_.Next();
    submitted.push_back(request);
    swarm::FinishRequest refusal;
    refusal.reason = swarm::FinishReason::kError;
    if (open_.size() >= queue_limit && !request.was_accepted) {
      refusal.error = Error(ErrorCode::kUnavailable, "The queue is full.");
      refusal.has_no_room = true;
      callbacks.on_finish(refusal);
      return id;
    }
    open_.push_back({id, std::move(request), std::move(callbacks)});
    open_.back().next = static_cast<uint32_t>(open_.back().request.answer_ids.size());
    return id;
  }
  void Cancel(swarm::RequestId id) override {
    End(id, swarm::FinishReason::kCancelled, std::nullopt);
  }
  void ForgetPrefix(const std::string& salt, const std::string& name) override {
    forgotten += salt + "/" + name + " ";
  }
  bool has_accepted(swarm::RequestId /*request*/) const override { return true; }
  bool is_up() const override { return up; }
  bool is_loading() const override { return !up && percent.has_value(); }
  std::optional<uint32_t> loading_percent() const override { return percent; }
  std::string message() const override { return "Of the fake core."; }
  std::optional<swarm::RequestProgress> progress(swarm::RequestId /*request*/) const override {
    return swarm::RequestProgress{false, 0, 9, 4};
  }

  // The next token of every request, or its end.
  void Step() {
    const std::deque<Open> now = open_;
    for (const Open& each : now) Step(each.id);
  }
  void Step(swarm::RequestId id) {
    Open* open = Find(id);
    if (open == nullptr) return;
    if (open->next == open->request.max_tokens)
      return End(id, swarm::FinishReason::kLength, std::nullopt);
    swarm::EmitToken token;
    token.index = open->next++;
    token.token_id = open->request.prompt_ids[0] * 100 +
                     static_cast<int32_t>(*open->request.sampling.seed * 10 + token.index);
    if (wrong_from && token.index >= *wrong_from) token.token_id = 7;
    token.logprob = -0.5f - static_cast<float>(token.index);
    if (open->request.want_logprobs) token.top = {{token.token_id, token.logprob}, {3, -9}};
    const auto on_token = open->callbacks.on_token;
    on_token(token);
  }
  void Rows(uint32_t first, uint32_t count) {
    std::vector<uint8_t> bytes(count * 4 * sizeof(float), static_cast<uint8_t>(first + 1));
    open_.front().callbacks.on_logits({open_.front().id, first, count, Slice(std::move(bytes))});
  }
  void End(swarm::RequestId id, swarm::FinishReason reason, std::optional<Error> error) {
    const Open* open = Find(id);
    if (open == nullptr) return;
    swarm::FinishRequest end;
    end.reason = reason;
    end.error = std::move(error);
    end.prompt_tokens = static_cast<uint32_t>(open->request.prompt_ids.size());
    end.generated_tokens = open->next;
    const auto on_finish = open->callbacks.on_finish;
    std::erase_if(open_, [id](const Open& each) { return each.id == id; });
    on_finish(end);
  }
  size_t open_count() const { return open_.size(); }
  swarm::RequestId last_id() const { return last_id_; }

  std::vector<swarm::Request> submitted;
  std::string forgotten;
  size_t queue_limit = 100;
  bool up = true;
  std::optional<uint32_t> percent;
  std::optional<uint32_t> wrong_from;  // tokens from there on are others

 private:
  struct Open {
    swarm::RequestId id;
    swarm::Request request;
    RequestCallbacks callbacks;
    uint32_t next = 0;
  };
  Open* Find(swarm::RequestId id) {
    for (Open& each : open_)
      if (each.id == id) return &each;
    return nullptr;
  }
  std::deque<Open> open_;
  swarm::RequestId last_id_;
};

}  // namespace weft::server
