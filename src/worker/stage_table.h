// The bindings of this worker: which layers their steps run, and whether they are loaded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace weft::worker {

class StageTable {
 public:
  struct Binding {
    uint32_t id = 0;  // as frames name it
    uint32_t stage = 0;
    LayerRange layers;
    LayerForm form = LayerForm::kWhole;
    bool loaded = false;
  };

  // A worker holds the binding it serves with, one that will replace it and those that it stands by
  // with. More than this nobody needs.
  static constexpr size_t kMaxBindings = 64;

  // Another leader may count from a lower number: numbers rise within a connection.
  void BeginConnection() { newest_ = 0; }
  // False, and nothing changed, unless it is newer than every one that is held or that came on this
  // connection, and there is room.
  bool Prepare(uint32_t id, uint32_t stage, LayerRange layers, LayerForm form);
  void SetLoaded(uint32_t id);

  bool Has(uint32_t id) const { return Find(id) != nullptr; }
  // What a step of this binding and stage runs; null unless it is loaded.
  const Binding* ToRun(uint32_t id, uint32_t stage) const;
  // By rising id.
  const std::vector<Binding>& bindings() const { return bindings_; }
  // Of every binding of that form.
  std::vector<LayerRange> Ranges(LayerForm form) const;

  void Remove(uint32_t id);
  void RemoveUnloaded();
  // Forgets every other binding, and those whose layers do not all stay loaded.
  void KeepOnly(std::span<const uint32_t> ids, std::span<const LayerRange> layers);
  void Clear() { bindings_.clear(); }

 private:
  const Binding* Find(uint32_t id) const;

  std::vector<Binding> bindings_;
  uint32_t newest_ = 0;  // of this connection
};

}  // namespace weft::worker
