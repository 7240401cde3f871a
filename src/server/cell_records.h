// CellRecords: what a cell asks and tells of the records of its server (recovery.h). All of it is
// called on the loop, and waits for no disk but where that is said.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "store/records_types.h"

namespace weft::server {

class CellRecords {
 public:
  CellRecords() = default;
  CellRecords(const CellRecords&) = delete;
  CellRecords& operator=(const CellRecords&) = delete;
  virtual ~CellRecords() = default;

  // Called once, on the loop, not before FindRequest has returned; never after these records end.
  using Found = std::function<void(std::optional<store::KnownRequest>)>;
  // Looks for a request that was begun with this key in the last day. What was noted before is
  // found.
  virtual void FindRequest(const std::string& key, Found then) = 0;
  // A key that is used again begins anew.
  virtual void NoteBegun(store::KeyedRequest request) = 0;
  // Tokens number `first` and following of a request that was begun with its prompt.
  virtual void NoteTokens(const std::string& key, uint32_t first,
                          std::vector<int32_t> token_ids) = 0;
  // Where devices hold what they have computed for it.
  virtual void NoteSession(const std::string& key, const store::StoredSession& session) = 0;
  virtual void NoteEnded(const std::string& key, uint32_t generated_tokens) = 0;

  virtual void NoteKept(store::StoredPrefix prefix) = 0;
  virtual void NoteForgotten(const std::string& salt, const std::string& name) = 0;

  // Waits until what was noted would survive this process.
  virtual void Flush() = 0;
};

}  // namespace weft::server
