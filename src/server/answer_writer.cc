#include "server/answer_writer.h"

#include "api/openai_response.h"
#include "server/responses.h"

namespace weft::server {

void StreamingWriter::SayLoading(const std::string& model, std::optional<uint32_t> percent) {
  responder_->Write(api::LoadingComment(model, percent));
}

void StreamingWriter::SayProgress(const swarm::RequestProgress& progress) {
  responder_->Write(api::ProgressComment(progress));
}

void StreamingWriter::SayMoving() {
  responder_->Write(api::kMovingComment);
}

void StreamingWriter::SayAlive() {
  responder_->Write(kAliveComment);
}

void StartEventStream(net::Responder& responder) {
  responder.StartStream(200, {{"Content-Type", kEventStreamType},
                              {"Cache-Control", "no-store"},
                              {"X-Accel-Buffering", "no"}});
}

}  // namespace weft::server
