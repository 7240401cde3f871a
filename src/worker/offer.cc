#include "worker/offer.h"

#include <algorithm>

#include "base/sha256.h"
#include "package/manifest.h"
#include "program/ir.h"
#include "wire/tensor_channel.h"
#include "wire/version.h"

namespace weft::worker {
namespace {

// Reported for a local disk, so that downloads are free in the plan.
constexpr double kLocalBytesPerS = 1e10;

// Three pings that did not come, but no less than what a busy machine may take to get one out.
constexpr int64_t kPingsMissed = 3;
constexpr Duration kLeastSilence = Seconds(3);

// `oldest` to `worker` are known here.
Status CheckVersion(const char* what, uint32_t server, uint32_t oldest, uint32_t worker) {
  if (server >= oldest && server <= worker) return OkStatus();
  return Error(ErrorCode::kUnsupported, std::string("The server speaks ") + what + " version " +
                                            std::to_string(server) + ", this worker version " +
                                            std::to_string(worker) +
                                            ": update weft on the older side.");
}

}  // namespace

Status CheckInit(const wire::pb::Init& init) {
  TRY(CheckVersion("protocol", init.protocol_version(), wire::kProtocolVersion,
                   wire::kProtocolVersion));
  TRY(CheckVersion("program", init.program_version(), program::kOldestProgramVersion,
                   program::kProgramVersion));
  TRY(CheckVersion("package format", init.package_format(), package::kOldestPackageFormat,
                   package::kPackageFormat));
  if (init.package_digest().size() == Sha256Digest{}.size()) return OkStatus();
  return Error(ErrorCode::kInvalidData, "The server's package digest has " +
                                            std::to_string(init.package_digest().size()) +
                                            " bytes, expected 32.");
}

uint32_t TokenBatch(const Offer& offer, const wire::pb::Init& init) {
  return init.batches_tokens() ? offer.makes_tokens : std::min(offer.makes_tokens, 1u);
}

wire::pb::Connect MakeConnect(const Offer& offer, const JoinedPackage& package,
                              const wire::pb::Init& init) {
  wire::pb::Connect connect;
  connect.set_protocol_version(wire::kProtocolVersion);
  connect.set_program_version(init.program_version());
  connect.set_package_format(init.package_format());
  connect.set_kind(offer.kind);
  connect.set_engine(offer.engine);
  connect.set_name(offer.name);
  connect.set_device(offer.device);
  connect.set_memory_bytes(offer.memory_bytes);
  connect.set_weight_factor(offer.weight_factor);
  connect.set_download_bytes_per_s(package.download_bytes_per_s > 0 ? package.download_bytes_per_s
                                                                    : kLocalBytesPerS);
  connect.set_upload_bytes_per_s(offer.upload_bytes_per_s);
  connect.set_needs_onnx(offer.needs_onnx);
  connect.set_takes_experts(offer.takes_experts);
  connect.set_keeps_state(offer.keeps_state);
  connect.set_states_ahead(offer.states_ahead);
  connect.set_can_be_hub(offer.can_be_hub);
  connect.set_runs_groups(offer.runs_groups);
  connect.set_divides_heads(offer.divides_heads);
  connect.set_divides_products(offer.divides_products);
  connect.set_datagrams(offer.datagrams);
  connect.set_messages(offer.messages);
  connect.set_half_rows(offer.half_rows);
  connect.set_sum_steps(offer.sum_steps);
  connect.set_integer_rows(offer.integer_rows);
  for (const DType dtype : offer.dtypes) connect.add_dtypes(static_cast<uint32_t>(dtype));
  const size_t named = std::min(offer.datagram_addresses.size(), wire::kMostChannelAddresses);
  connect.set_datagram_addresses(
      wire::PackAddresses(std::span(offer.datagram_addresses).first(named)));
  connect.set_join_token(offer.join_token);
  connect.set_worker_id(offer.worker_id);
  for (const uint32_t layer : package.cached_layers) connect.add_cached_layers(layer);
  return connect;
}

Duration SilenceLimit(const wire::pb::Init& init) {
  const Duration interval =
      init.ping_interval_ms() > 0 ? Milliseconds(init.ping_interval_ms()) : wire::kPingInterval;
  return std::max(kLeastSilence, interval * kPingsMissed);
}

}  // namespace weft::worker
