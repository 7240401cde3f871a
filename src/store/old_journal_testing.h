// Writes journals as earlier versions wrote them, for tests.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/sha256.h"
#include "store/old_journal.pb.h"

namespace weft::store {

inline constexpr std::string_view kTestMark = "0123456789abcdef";
inline const std::string kTestFormatLine = "weft journal 1 " + std::string(kTestMark) + "\n";

inline std::string FrameOf(std::string_view payload, std::string_view mark = kTestMark) {
  const Sha256Digest digest = Sha256(AsBytes(payload));
  uint8_t size[sizeof(uint32_t)];
  StoreLe(size, static_cast<uint32_t>(payload.size()));
  std::string frame(mark);
  frame += AsText(size);
  frame += AsText(digest).substr(0, 8);
  frame += payload;
  return frame;
}

inline std::string FrameOf(const pb::Record& record) {
  return FrameOf(record.SerializeAsString());
}

inline std::string JournalOf(const std::vector<pb::Record>& records) {
  std::string file = kTestFormatLine;
  for (const pb::Record& record : records) file += FrameOf(record);
  return file;
}

inline pb::Record StartRecord(const std::string& package_digest) {
  pb::Record record;
  record.mutable_start()->set_package_digest(package_digest);
  return record;
}

inline pb::Record SecretsRecord(const std::string& name, bool used = false) {
  pb::Record record;
  record.mutable_secrets()->set_api_key("key " + name);
  record.mutable_secrets()->set_join_token("token " + name);
  record.mutable_secrets()->set_used(used);
  return record;
}

inline pb::Record PlacementRecord(uint32_t last_binding) {
  pb::Record record;
  pb::Placement& placement = *record.mutable_placement();
  placement.set_swarm_id("0123456789abcdef");
  placement.set_last_binding(last_binding);
  placement.add_devices()->set_id("a device");
  placement.add_lifetimes()->set_device("a device");
  return record;
}

inline pb::Record BegunRecord(const std::string& key, uint64_t seed, int64_t begun_at_s,
                              bool with_prompt = false) {
  pb::Record record;
  pb::RequestBegun& begun = *record.mutable_request_begun();
  begun.set_key(key);
  begun.set_digest("digest of " + key);
  begun.set_seed(seed);
  begun.set_begun_at_s(begun_at_s);
  if (with_prompt) begun.mutable_request()->add_prompt_ids(7);
  return record;
}

inline pb::Record TokensRecord(const std::string& key, std::initializer_list<int32_t> ids,
                               uint32_t first = 0) {
  pb::Record record;
  record.mutable_request_tokens()->set_key(key);
  record.mutable_request_tokens()->set_first(first);
  for (const int32_t id : ids) record.mutable_request_tokens()->add_token_ids(id);
  return record;
}

inline pb::Record EndedRecord(const std::string& key, uint32_t generated_tokens) {
  pb::Record record;
  record.mutable_request_ended()->set_key(key);
  record.mutable_request_ended()->set_generated_tokens(generated_tokens);
  return record;
}

inline pb::Record KeptRecord(const std::string& name, const std::string& salt, int32_t id) {
  pb::Record record;
  record.mutable_kept_prefix()->set_name(name);
  record.mutable_kept_prefix()->set_salt(salt);
  if (id != 0) record.mutable_kept_prefix()->add_token_ids(id);
  return record;
}

}  // namespace weft::store
