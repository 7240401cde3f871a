#include "swarm/workers/connect.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/secret.h"
#include "swarm/workers/device.h"
#include "wire/tensor_channel.h"
#include "wire/version.h"

namespace weft::swarm {
namespace {

constexpr std::array<std::string_view, 3> kKinds = {"native", "web", "headless"};
constexpr std::array<std::string_view, 4> kEngines = {"native", "ort-wasm", "ort-webgpu", "webgpu"};
constexpr size_t kNameBytes = 64, kDeviceBytes = 200, kDeviceIdBytes = 64, kTokenBytes = 256;
// An offer beyond 2^50 bytes or a rate beyond 1 TB/s is a broken worker, not a big one.
constexpr uint64_t kMaxMemoryBytes = 1ull << 50;
constexpr double kMaxRate = 1e12;
constexpr uint32_t kMaxTokenBatch = 64;
constexpr int kMaxDTypes = 64;

Error Broken(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

Status CheckVersion(std::string_view what, uint32_t theirs, uint32_t ours, std::string_view kind) {
  if (theirs == ours) return OkStatus();
  // The side with the lower number has to move; a page is moved by reloading it.
  std::string advice = kind == "web" ? "reload the page" : "update weft on this device";
  if (theirs > ours) advice = "update weft on the server";
  return Error(ErrorCode::kUnsupported, "This worker speaks " + std::string(what) + " version " +
                                            std::to_string(theirs) + " and the server version " +
                                            std::to_string(ours) + ": " + advice + ".");
}

Status CheckToken(const std::string& token, const CoreOptions& options) {
  if (options.join_token_sha256_hex.empty()) return OkStatus();
  const std::string hash = HashSecret(std::string_view(token).substr(0, kTokenBytes));
  const bool matches =
      IsOneOfHashes(hash, options.join_token_sha256_hex, options.earlier_join_tokens_sha256_hex) ||
      (options.is_join_token && options.is_join_token(hash));
  if (matches && token.size() <= kTokenBytes) return OkStatus();
  return Error(ErrorCode::kPermissionDenied,
               token.empty() ? "This swarm needs a join token: open the whole join link, with the "
                               "part after the #."
                             : "The join token is not this swarm's: ask for a new join link.");
}

Result<double> CheckRate(std::string_view name, double rate) {
  if (std::isfinite(rate) && rate >= 0 && rate <= kMaxRate) return rate;
  return Broken("Connect gives " + std::string(name) + " as " + std::to_string(rate) +
                " bytes a second, expected 0 to 1e12.");
}

template <size_t N>
Status CheckOneOf(std::string_view name, const std::string& value,
                  const std::array<std::string_view, N>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return OkStatus();
  std::string list;
  for (const std::string_view item : known) list += (list.empty() ? "" : ", ") + std::string(item);
  return Broken("Connect gives the " + std::string(name) + " \"" + PrintableText(value, 64) +
                "\", expected one of: " + list + ".");
}

Result<std::vector<uint32_t>> CheckCachedLayers(const wire::pb::Connect& connect,
                                                size_t layer_count) {
  if (static_cast<size_t>(connect.cached_layers_size()) > layer_count)
    return Broken("Connect lists " + std::to_string(connect.cached_layers_size()) +
                  " cached layers, expected at most " + std::to_string(layer_count) + ".");
  std::vector<uint32_t> layers(connect.cached_layers().begin(), connect.cached_layers().end());
  for (const uint32_t layer : layers)
    if (layer >= layer_count)
      return Broken("Connect lists cached layer " + std::to_string(layer) +
                    ", expected less than " + std::to_string(layer_count) + ".");
  return layers;
}

// Bytes of the UTF-8 character that begins at `at`, or 0 where none does.
size_t CharacterBytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const size_t count = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (count == 0 || lead >= 0xf5 || at + count > text.size()) return 0;
  for (size_t i = 1; i < count; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, C1 controls and numbers past U+10FFFF.
  const uint8_t second = byte(at + 1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
      (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90) ||
      (lead == 0xc2 && second < 0xa0))
    return 0;
  return count;
}

}  // namespace

std::string PrintableText(std::string_view text, size_t byte_limit) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t count = CharacterBytes(text, at);
    if (out.size() + std::max<size_t>(count, 1) > byte_limit) break;
    if (count == 0)
      out += '?';
    else
      out += text.substr(at, count);
    at += std::max<size_t>(count, 1);
  }
  return out;
}

bool RunsDTypes(const Offer& offer, const ModelInfo& model) {
  return std::ranges::all_of(model.dtypes, [&](DType dtype) {
    return std::ranges::find(offer.dtypes, dtype) != offer.dtypes.end();
  });
}

bool CanCompute(const Offer& offer, const ModelInfo& model) {
  return (offer.needs_onnx ? model.has_onnx : model.lowered) &&
         (offer.keeps_state || !model.is_recurrent()) && RunsDTypes(offer, model) &&
         (offer.runs_groups || !model.is_in_groups());
}

bool CanHoldExperts(const Offer& offer, const CoreOptions& options) {
  const ModelInfo& model = options.model;
  return offer.takes_experts && RunsDTypes(offer, model) &&
         (offer.runs_groups || !model.is_in_groups()) &&
         (offer.divides_heads || !model.divides_head()) &&
         (offer.divides_products || !model.divides_products()) &&
         (offer.half_rows || !options.half_rows);
}

bool CanBeHub(const Offer& offer, const CoreOptions& options) {
  const ModelInfo& model = options.model;
  // Its head and attention are whole.
  if (offer.rows_to_server) return model.allows_served_hubs();
  return offer.can_be_hub && (offer.divides_heads || !model.divides_head()) &&
         (offer.divides_products || !model.divides_products()) &&
         (offer.half_rows || !options.half_rows);
}

wire::pb::Init::Successor MakeSuccessor(const Successor& successor) {
  wire::pb::Init::Successor made;
  made.set_url(successor.url);
  made.set_fingerprint(successor.fingerprint);
  return made;
}

wire::pb::Init MakeInit(const CoreOptions& options, uint64_t incarnation,
                        const std::vector<Successor>& successors) {
  const ModelInfo& model = options.model;
  wire::pb::Init init;
  init.set_protocol_version(wire::kProtocolVersion);
  init.set_program_version(model.program_version);
  init.set_package_format(model.package_format);
  init.set_server_version(wire::kServerVersion);
  init.set_model_name(model.name);
  init.set_package_digest(std::string(AsText(model.package_digest)));
  init.set_layer_count(static_cast<uint32_t>(model.layers.size()));
  init.set_context_length(options.context_length);
  init.set_session_count(options.session_count);
  init.set_join_token_required(!options.join_token_sha256_hex.empty());
  init.set_probe_bytes(options.probe_bytes);
  init.set_swarm_id(options.swarm_id);
  init.set_incarnation(incarnation);
  for (const Successor& each : successors) *init.add_successors() = MakeSuccessor(each);
  init.set_resume_ms(static_cast<uint32_t>(options.timeouts.resume_limit.us / 1000));
  init.set_batches_tokens(true);
  init.set_ping_interval_ms(static_cast<uint32_t>(options.timeouts.ping_interval.us / 1000));
  return init;
}

Result<Offer> CheckConnect(const wire::pb::Connect& connect, const CoreOptions& options) {
  TRY(CheckVersion("protocol", connect.protocol_version(), wire::kProtocolVersion, connect.kind()));
  TRY(CheckVersion("program", connect.program_version(), options.model.program_version,
                   connect.kind()));
  TRY(CheckVersion("package format", connect.package_format(), options.model.package_format,
                   connect.kind()));
  TRY(CheckToken(connect.join_token(), options));
  TRY(CheckOneOf("kind", connect.kind(), kKinds));
  TRY(CheckOneOf("engine", connect.engine(), kEngines));
  Offer offer;
  offer.kind = connect.kind();
  offer.engine = connect.engine();
  offer.name = PrintableText(connect.name(), kNameBytes);
  if (offer.name.empty()) offer.name = offer.kind + " worker";
  offer.device = PrintableText(connect.device(), kDeviceBytes);
  offer.device_id = PrintableText(connect.worker_id(), kDeviceIdBytes);
  offer.needs_onnx = connect.needs_onnx();
  offer.makes_tokens = std::min(connect.makes_tokens(), kMaxTokenBatch);
  offer.takes_experts = connect.takes_experts();
  offer.keeps_state = connect.keeps_state();
  offer.states_ahead = connect.states_ahead();
  offer.can_be_hub = connect.can_be_hub();
  offer.rows_to_server = connect.rows_to_server();
  offer.runs_groups = connect.runs_groups();
  offer.divides_heads = connect.divides_heads();
  offer.divides_products = connect.divides_products();
  offer.datagrams = connect.datagrams();
  offer.messages = connect.messages();
  offer.half_rows = connect.half_rows();
  offer.sum_steps = connect.sum_steps();
  offer.integer_rows = connect.integer_rows();
  if (connect.dtypes_size() > kMaxDTypes)
    return Broken("Connect lists " + std::to_string(connect.dtypes_size()) +
                  " dtypes, expected at most " + std::to_string(kMaxDTypes) + ".");
  // Those that are not known here are of no use.
  for (const uint32_t dtype : connect.dtypes())
    if (dtype <= std::numeric_limits<uint8_t>::max())
      offer.dtypes.push_back(DType{static_cast<uint8_t>(dtype)});
  ASSIGN_OR_RETURN(offer.datagram_addresses,
                   wire::UnpackAddresses(AsBytes(connect.datagram_addresses())));
  offer.memory_bytes = connect.memory_bytes();
  if (offer.memory_bytes == 0 || offer.memory_bytes > kMaxMemoryBytes)
    return Broken("Connect offers " + std::to_string(offer.memory_bytes) +
                  " bytes of memory, expected 1 to " + std::to_string(kMaxMemoryBytes) + ".");
  offer.weight_factor = connect.weight_factor();
  if (!(offer.weight_factor >= kMinWeightFactor && offer.weight_factor <= kMaxWeightFactor))
    return Broken("Connect gives the weight factor " + std::to_string(offer.weight_factor) +
                  ", expected 0.25 to 16.");
  ASSIGN_OR_RETURN(offer.download_bytes_per_s,
                   CheckRate("the download rate", connect.download_bytes_per_s()));
  ASSIGN_OR_RETURN(offer.upload_bytes_per_s,
                   CheckRate("the upload rate", connect.upload_bytes_per_s()));
  // 0 means unknown.
  offer.download_bytes_per_s = DownloadRate(offer.download_bytes_per_s);
  offer.upload_bytes_per_s = UploadRate(offer.upload_bytes_per_s, offer.download_bytes_per_s);
  ASSIGN_OR_RETURN(offer.cached_layers, CheckCachedLayers(connect, options.model.layers.size()));
  return offer;
}

}  // namespace weft::swarm
