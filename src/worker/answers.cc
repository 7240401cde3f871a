#include "worker/answers.h"

#include <string>

namespace weft::worker {

wire::pb::WorkerMessage FailedMessage(uint32_t binding, const Error& error) {
  wire::pb::WorkerMessage message;
  message.mutable_failed()->set_binding(binding);
  message.mutable_failed()->set_code(std::string(ErrorCodeName(error.code())));
  message.mutable_failed()->set_message(error.ToString());
  return message;
}

wire::pb::WorkerMessage StepFailedMessage(uint32_t sequence, uint32_t binding, uint32_t stage,
                                          const Error& error) {
  wire::pb::WorkerMessage message;
  message.mutable_step_failed()->set_sequence(sequence);
  message.mutable_step_failed()->set_binding(binding);
  message.mutable_step_failed()->set_stage(stage);
  message.mutable_step_failed()->set_code(std::string(ErrorCodeName(error.code())));
  message.mutable_step_failed()->set_message(error.ToString());
  return message;
}

}  // namespace weft::worker
