#include "server/package_routes.h"

#include <charconv>
#include <optional>

#include "base/log.h"
#include "base/sha256.h"
#include "server/static_files.h"

namespace weft::server {
namespace {

net::HttpResponse NotFound(const std::string& why) {
  return net::TextResponse(404, "text/plain; charset=utf-8", why + "\n");
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

PackageRoutes::PackageRoutes(package::Package package, std::shared_ptr<StageGraphs> graphs,
                             net::EventLoop& loop, net::ThreadPool& pool)
    : package_(std::move(package)), loop_(loop), pool_(pool), graphs_(std::move(graphs)) {}

void PackageRoutes::Answer(const net::HttpRequest& request,
                           std::shared_ptr<net::Responder> responder) {
  const std::string_view rest =
      std::string_view(request.path).substr(std::string_view("/package/").size());
  constexpr std::string_view kBlobs = "blobs/";
  constexpr std::string_view kStages = "stages/";
  if (rest == "weft.json") {
    const Slice bytes = Slice::OfText(package_.manifest_json);
    return responder->Send(RangedResponse(request, bytes, "\"" + package_.digest.ToHex() + "\"",
                                          "application/json", false));
  }
  if (rest.starts_with(kBlobs)) {
    const auto digest = package::Digest::Parse(rest.substr(kBlobs.size()));
    if (!digest.ok() || !package_.manifest.blobs.contains(*digest)) {
      return responder->Send(NotFound("This package has no such blob."));
    }
    const auto blob = package_.blobs->Get(*digest, nullptr);  // the receiver verifies
    if (!blob.ok()) {
      LogError("{}", blob.error().ToString());
      return responder->Send(NotFound("The blob's file is missing on the server."));
    }
    auto response = RangedResponse(request, *blob, "\"" + digest->ToHex() + "\"",
                                   "application/octet-stream", true);
    response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
    return responder->Send(std::move(response));
  }
  if (rest.starts_with(kStages)) {
    return AnswerStage(request, std::string(rest.substr(kStages.size())), std::move(responder));
  }
  responder->Send(NotFound("No such file in the package."));
}

void PackageRoutes::AnswerStage(const net::HttpRequest& request, const std::string& name,
                                std::shared_ptr<net::Responder> responder) {
  const auto range = ParseStageName(name, static_cast<int>(package_.manifest.layers.size()));
  if (!range) {
    return responder->Send(NotFound("Stages are named <first>-<end>.onnx, end at most " +
                                    std::to_string(package_.manifest.layers.size()) + "."));
  }
  pool_.Run([this, request, responder, range = *range, graphs = graphs_] {
    auto stage = graphs->Cut(range.first, range.end);
    loop_.Post([request, responder, stage = std::move(stage)] {
      if (!stage.ok()) {
        LogError("{}", stage.error().ToString());
        return responder->Send(
            net::TextResponse(500, "text/plain; charset=utf-8", stage.error().ToString() + "\n"));
      }
      const std::string etag = "\"" + ToHex(Sha256(stage->bytes())).substr(0, 32) + "\"";
      responder->Send(RangedResponse(request, *stage, etag, "application/octet-stream", false));
    });
  });
}

}  // namespace weft::server
