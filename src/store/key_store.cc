#include "store/key_store.h"

#include <algorithm>

#include "base/sentence.h"
#include "base/spelling.h"

namespace weft::store {
namespace {

Error NameTaken(const Key& key, int64_t now_ms) {
  const std::string state =
      key.IsExpired(now_ms) ? ", which expired " + TimeText(*key.expires_ms) : "";
  return {ErrorCode::kAlreadyExists, "There is a key '" + key.name + "' already" + state +
                                         ". End it first (weft keys end " + key.name +
                                         "), or choose another name."};
}

}  // namespace

Status CheckRoomFor(const NewKey& wanted, std::span<const Key> keys, int64_t now_ms) {
  int64_t live = 0;
  for (const Key& each : keys) {
    if (each.ended_ms) continue;
    if (each.name == wanted.name) return NameTaken(each, now_ms);
    ++live;
  }
  if (live < kMostKeys) return OkStatus();
  return Error(ErrorCode::kLimitExceeded,
               Sentence("There are ", live, " keys already, the limit. End some first."));
}

Result<Key> FindToEnd(const std::string& name, std::span<const Key> keys) {
  std::vector<std::string> names;
  const Key* ended_before = nullptr;
  for (const Key& each : keys) {
    if (each.name == name && !each.ended_ms) return each;
    if (each.name == name)
      ended_before = &each;
    else if (!each.ended_ms)
      names.push_back(each.name);
  }
  if (ended_before != nullptr)
    return Error(ErrorCode::kNotFound,
                 "The key '" + name + "' ended " + TimeText(*ended_before->ended_ms) + " already.");
  return Error(ErrorCode::kNotFound,
               "There is no key '" + name.substr(0, 64) + "'." + DidYouMean(name, names));
}

std::string JoinLines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

std::vector<std::string> SplitLines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace weft::store
