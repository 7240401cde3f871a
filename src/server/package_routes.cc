#include "server/package_routes.h"

#include <charconv>
#include <optional>

#include "api/openai_response.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/task_queue.h"
#include "server/responses.h"
#include "server/static_files.h"

namespace weft::server {
namespace {

// Disks answer several readers at once; more would only wait for each other.
constexpr unsigned kReadingThreads = 2;
constexpr size_t kMaxRequestsWaiting = 512;
// What is read ahead of a client, however slow it is and however much it asked for.
constexpr uint64_t kReadAheadBytes = 1 << 20;

api::ApiError NotFound(std::string why) {
  return {404, std::move(why), "invalid_request_error", "", "not_found"};
}

struct StageRange {
  int first = 0;
  int end = 0;
};

// "<first>-<end>.onnx" with 0 <= first < end <= layer_count.
std::optional<StageRange> ParseStageName(std::string_view name, int layer_count) {
  StageRange range;
  const char* const end_of_text = name.data() + name.size();
  const auto first = std::from_chars(name.data(), end_of_text, range.first);
  if (first.ec != std::errc() || first.ptr == end_of_text || *first.ptr != '-') return std::nullopt;
  const auto end = std::from_chars(first.ptr + 1, end_of_text, range.end);
  if (end.ec != std::errc() ||
      std::string_view(end.ptr, static_cast<size_t>(end_of_text - end.ptr)) != ".onnx") {
    return std::nullopt;
  }
  if (range.first < 0 || range.first >= range.end || range.end > layer_count) return std::nullopt;
  return range;
}

}  // namespace

struct PackageRoutes::Threads : std::enable_shared_from_this<Threads> {
  explicit Threads(net::EventLoop& the_loop) : loop(the_loop) {}

  // Called on a thread, which keeps no reference: connections end on the loop alone.
  void Deliver(std::shared_ptr<net::Responder> responder, net::HttpResponse response) {
    loop.Post([weak = weak_from_this(), responder = std::move(responder),
               response = std::move(response)]() mutable {
      if (const auto self = weak.lock()) --self->waiting;
      responder->Send(std::move(response));
    });
  }
  void ReadAsItIsSent(net::HttpResponse& response);

  net::EventLoop& loop;
  size_t waiting = 0;  // answers, and pieces of them, that the threads owe
  // Last: their tasks use what stands above. Apart: a graph takes seconds, and blobs go on.
  TaskQueue reading{kReadingThreads};
  TaskQueue cutting{1};
};

PackageRoutes::PackageRoutes(package::Package package, std::shared_ptr<StageGraphs> graphs,
                             net::EventLoop& loop)
    : package_(std::move(package)),
      graphs_(std::move(graphs)),
      threads_(std::make_shared<Threads>(loop)) {}

void PackageRoutes::Answer(const net::HttpRequest& request,
                           std::shared_ptr<net::Responder> responder) {
  const std::string_view rest =
      std::string_view(request.path).substr(std::string_view("/package/").size());
  constexpr std::string_view kBlobs = "blobs/";
  constexpr std::string_view kStages = "stages/";
  if (rest == "weft.json") {
    const Slice bytes = Slice::OfText(package_.manifest_json);
    return responder->Send(RangedResponse(request, bytes, "\"" + package_.digest.ToHex() + "\"",
                                          "application/json", Caching::kAskAgain));
  }
  if (threads_->waiting >= kMaxRequestsWaiting) {
    return responder->Send(
        ErrorResponse(Overloaded(std::to_string(threads_->waiting) +
                                 " downloads wait to be read already. Try again soon.")));
  }
  if (rest.starts_with(kBlobs)) {
    return AnswerBlob(request, std::string(rest.substr(kBlobs.size())), std::move(responder));
  }
  if (rest.starts_with(kStages)) {
    return AnswerStage(request, std::string(rest.substr(kStages.size())), std::move(responder));
  }
  responder->Send(ErrorResponse(NothingAt(request.path)));
}

void PackageRoutes::AnswerBlob(const net::HttpRequest& request, const std::string& name,
                               std::shared_ptr<net::Responder> responder) {
  const auto digest = package::Digest::Parse(name);
  if (!digest.ok() || !package_.manifest.blobs.contains(*digest)) {
    return responder->Send(ErrorResponse(NotFound("This package has no such blob.")));
  }
  ++threads_->waiting;
  threads_->reading.Push([threads = threads_.get(), blobs = package_.blobs, request,
                          responder = std::move(responder), digest = *digest,
                          info = package_.manifest.blobs.at(*digest)]() mutable {
    auto blob = blobs->Map(digest, info);  // the receiver verifies
    net::HttpResponse response;
    if (blob.ok()) {
      response = RangedResponse(request, *blob, "\"" + digest.ToHex() + "\"",
                                "application/octet-stream", Caching::kForeverByClient);
      threads->ReadAsItIsSent(response);
    } else {
      LogError("{}", blob.error().ToString());
      response = ErrorResponse(NotFound("The blob's file is missing on the server."));
    }
    threads->Deliver(std::move(responder), std::move(response));
  });
}

// What is mapped comes from the disk when it is touched: a thread does that piece by piece, so that
// the socket finds each in memory. It stays in the system's cache, not in ours.
void PackageRoutes::Threads::ReadAsItIsSent(net::HttpResponse& response) {
  std::vector<Slice> pieces;
  for (const Slice& part : response.body) {
    for (uint64_t begin = 0; begin < part.byte_count(); begin += kReadAheadBytes) {
      pieces.push_back(part.Sub(begin, std::min(kReadAheadBytes, part.byte_count() - begin)));
    }
  }
  response.body = std::move(pieces);
  auto owner = weak_from_this().lock();
  if (!owner) return;  // they are ending, and so is whoever asked
  response.prepare = [self = std::move(owner)](const Slice& piece, std::function<void()> go_on) {
    ++self->waiting;
    self->reading.Push([threads = self.get(), piece, go_on = std::move(go_on)]() mutable {
      BringIntoMemory(piece.bytes());
      threads->loop.Post([weak = threads->weak_from_this(), go_on = std::move(go_on)] {
        if (const auto alive = weak.lock()) --alive->waiting;
        go_on();
      });
    });
  };
}

void PackageRoutes::AnswerStage(const net::HttpRequest& request, const std::string& name,
                                std::shared_ptr<net::Responder> responder) {
  const auto range = ParseStageName(name, static_cast<int>(package_.manifest.layers.size()));
  if (!range) {
    return responder->Send(
        ErrorResponse(NotFound("Stages are named <first>-<end>.onnx, end at most " +
                               std::to_string(package_.manifest.layers.size()) + ".")));
  }
  ++threads_->waiting;
  threads_->cutting.Push([threads = threads_.get(), graphs = graphs_, request,
                          responder = std::move(responder), range = *range]() mutable {
    auto stage = graphs->Cut(range.first, range.end);
    net::HttpResponse response;
    if (stage.ok()) {
      const std::string etag = "\"" + ToHex(Sha256(stage->bytes())).substr(0, 32) + "\"";
      response =
          RangedResponse(request, *stage, etag, "application/octet-stream", Caching::kAskAgain);
    } else {
      LogError("{}", stage.error().ToString());
      response = ErrorResponse(api::FromError(stage.error()));
    }
    threads->Deliver(std::move(responder), std::move(response));
  });
}

}  // namespace weft::server
