// ModelShelf decides which models of a server are loaded: pure, told of everything with its time.
//
//   asked "a"                        Load a
//   asked "b", with room for both    Load b
//   asked "c", without room          Unload the one whose last answer is longest ago, then Load c
//   nobody asks "a" for 5 minutes    Unload a
//
// A model with answers under way is never unloaded. Where all that hold the memory have some, the
// one that was loaded first is closed to further requests after its turn, and goes when the last
// answer is over: so everyone gets a turn, and nobody overtakes who waits longest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace weft::server {

class ModelShelf {
 public:
  enum class State : uint8_t { kOnDisk, kLoading, kLoaded, kUnloading };
  struct Options {
    // Of a model without answers, behind its last one; nullopt: it stays until others want its
    // memory.
    std::optional<Duration> keep_alive = Seconds(300);
    Duration turn = Seconds(30);     // that a model with answers has while others wait
    Duration retry = Seconds(30);    // until a pinned model that could not be loaded is tried again
    uint64_t least_offer_bytes = 0;  // of a device to a model
  };
  struct Action {
    enum class Kind : uint8_t { kLoad, kUnload };
    Kind kind = Kind::kLoad;
    std::string model;
    bool operator==(const Action&) const = default;
  };

  explicit ModelShelf(Options options) : options_(options) {}

  // A model that can be had, and the memory that it takes in all. `pinned`: it is loaded whatever
  // else is, and never unloaded.
  void Know(const std::string& model, uint64_t need_bytes, bool pinned);
  // It is not there any more. One that is loaded stays so until it is unloaded, and one that is
  // waited for until that is over: all are known until a Sweep finds nothing left of them.
  void Forget(const std::string& model);
  void Sweep();
  bool Knows(const std::string& model) const { return models_.contains(model); }
  // The memory of each device. A device offers a model what that needs, as far as the models before
  // it have left memory; so several fit when each is offered as much as it needs.
  void SetRoom(std::vector<uint64_t> device_bytes) { room_bytes_ = std::move(device_bytes); }

  // REQUIRES of all below: the model is known.
  State StateOf(const std::string& model) const { return models_.at(model).state; }
  // Of models that wait: what they wait for, in a sentence.
  std::string WhyItWaits(const std::string& model) const;
  // Whether a request may begin: it is loaded, and not closed for others' sake.
  bool IsOpen(const std::string& model) const;
  // A request waits for it, or has given up.
  void Ask(const std::string& model);
  void Withdraw(const std::string& model);
  // It goes as soon as what is under way has ended. Requests that come later wait until it is
  // loaded again. REQUIRES: it is loaded, and not pinned.
  void AskUnload(const std::string& model);
  bool IsPinned(const std::string& model) const { return models_.at(model).is_pinned; }
  // What it takes of all devices together.
  uint64_t NeedOf(const std::string& model) const { return models_.at(model).need_bytes; }
  // Requests that wait for it to be loaded.
  uint32_t WaitingFor(const std::string& model) const { return models_.at(model).waiting; }
  // A request is under way, or over.
  void Begin(const std::string& model, Instant now);
  void End(const std::string& model, Instant now);
  // What was told to be done is done. A load that failed leaves nobody waiting.
  void NoteLoaded(const std::string& model, Instant now);
  void NoteFailed(const std::string& model, Instant now);
  void NoteUnloaded(const std::string& model);

  // What is to be done now; told once.
  std::vector<Action> Next(Instant now);
  // When to call Next again although nothing happened; nullopt: not before.
  std::optional<Instant> next_look() const { return next_look_; }
  // When a model without answers goes; nullopt: not by itself.
  std::optional<Instant> EndOf(const std::string& model) const;

 private:
  struct Model {
    uint64_t need_bytes = 0;
    bool is_pinned = false;
    bool is_forgotten = false;
    State state = State::kOnDisk;
    uint32_t waiting = 0, under_way = 0;
    bool is_to_go = false;    // the owner wants it unloaded
    uint64_t asked = 0;       // when it was first asked, in an order; 0: nobody waits
    bool is_closed = false;   // others have waited for it long enough
    bool was_closed = false;  // until now, so that requests wait for it
    Instant loaded_at, used_at;
    std::optional<Instant> failed_at;  // the last load
    uint64_t order = 0;                // of loading
  };

  // Models by their order of loading.
  using Line = std::map<uint64_t, const Model*>;
  Line Holding(bool with_leaving) const;
  bool FitTogether(const Line& held, uint64_t further_bytes) const;
  bool Fits(const Model& model) const;
  bool IsIdle(const Model& model) const;
  void Unload(const std::string& name, Model& model, std::vector<Action>& actions);
  void UnloadAsked(std::vector<Action>& actions);
  void UnloadExpired(Instant now, std::vector<Action>& actions);
  // For a further model; 0: for those that are held, of which devices have gone.
  void MakeRoom(uint64_t further_bytes, Instant now, std::vector<Action>& actions);
  void CloseSome(Line staying, uint64_t further_bytes, Instant now);
  void LookAt(Instant time);

  const Options options_;
  std::vector<uint64_t> room_bytes_;
  std::map<std::string, Model> models_;
  uint64_t asked_ = 0, loads_ = 0;
  std::optional<Instant> next_look_;
};

}  // namespace weft::server
