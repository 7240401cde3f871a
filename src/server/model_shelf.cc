#include "server/model_shelf.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft::server {

void ModelShelf::Know(const std::string& model, uint64_t need_bytes, bool pinned) {
  Model& known = models_[model];
  known.is_pinned = pinned;
  known.is_forgotten = false;
  // What is loaded takes what it took.
  if (known.state == State::kOnDisk) known.need_bytes = need_bytes;
}

void ModelShelf::Forget(const std::string& model) {
  const auto found = models_.find(model);
  if (found != models_.end()) found->second.is_forgotten = true;
}

void ModelShelf::Sweep() {
  std::erase_if(models_, [](const auto& each) {
    const Model& model = each.second;
    return model.is_forgotten && model.state == State::kOnDisk && model.waiting == 0;
  });
}

bool ModelShelf::IsOpen(const std::string& model) const {
  const Model& known = models_.at(model);
  return known.state == State::kLoaded && !known.is_closed && !known.is_to_go;
}

void ModelShelf::AskUnload(const std::string& model) {
  Model& asked = models_.at(model);
  CHECK(asked.state == State::kLoaded && !asked.is_pinned, "it cannot be unloaded");
  asked.is_to_go = true;
}

void ModelShelf::Ask(const std::string& model) {
  Model& asked = models_.at(model);
  if (asked.waiting++ == 0) asked.asked = ++asked_;
}

void ModelShelf::Withdraw(const std::string& model) {
  Model& asked = models_.at(model);
  CHECK(asked.waiting > 0, "nobody waits for it");
  if (--asked.waiting == 0) asked.asked = 0;
}

void ModelShelf::Begin(const std::string& model, Instant now) {
  Model& used = models_.at(model);
  ++used.under_way;
  used.used_at = now;
}

void ModelShelf::End(const std::string& model, Instant now) {
  Model& used = models_.at(model);
  CHECK(used.under_way > 0, "no request of it is under way");
  --used.under_way;
  used.used_at = now;
}

void ModelShelf::NoteLoaded(const std::string& model, Instant now) {
  Model& loaded = models_.at(model);
  loaded.state = State::kLoaded;
  loaded.loaded_at = loaded.used_at = now;
  loaded.failed_at.reset();
}

void ModelShelf::NoteFailed(const std::string& model, Instant now) {
  Model& failed = models_.at(model);
  failed.failed_at = now;
  failed.waiting = 0;
  failed.asked = 0;
  NoteUnloaded(model);
}

void ModelShelf::NoteUnloaded(const std::string& model) {
  Model& gone = models_.at(model);
  gone.state = State::kOnDisk;
  gone.is_closed = gone.was_closed = gone.is_to_go = false;
}

std::string ModelShelf::WhyItWaits(const std::string& model) const {
  const Model& waits = models_.at(model);
  if (waits.state == State::kLoading) return "'" + model + "' is being loaded.";
  if (waits.is_to_go)
    return "'" + model + "' is to be unloaded, and is loaded again when its answers have ended.";
  std::string holders;
  for (const auto& [name, other] : models_)
    if (other.state != State::kOnDisk && name != model)
      holders += (holders.empty() ? "'" : ", '") + name + "'";
  if (holders.empty()) return "'" + model + "' is about to be loaded.";
  return "There is no memory for '" + model + "' while the devices hold " + holders + ".";
}

std::optional<Instant> ModelShelf::EndOf(const std::string& model) const {
  const Model& known = models_.at(model);
  if (known.is_pinned || !options_.keep_alive || !IsIdle(known)) return std::nullopt;
  return known.used_at + *options_.keep_alive;
}

ModelShelf::Line ModelShelf::Holding(bool with_leaving) const {
  Line line;
  for (const auto& [name, model] : models_)
    if (model.state != State::kOnDisk && (with_leaving || model.state != State::kUnloading))
      line.emplace(model.order, &model);
  return line;
}

bool ModelShelf::FitTogether(const Line& held, uint64_t further_bytes) const {
  std::vector<uint64_t> left_bytes = room_bytes_;
  const auto takes = [&](uint64_t need_bytes) {
    uint64_t offered_bytes = 0;
    for (uint64_t& left : left_bytes) {
      const uint64_t offer = std::min(left, need_bytes);
      if (offer < options_.least_offer_bytes) continue;
      left -= offer;
      offered_bytes += offer;
    }
    return offered_bytes >= need_bytes;
  };
  for (const auto& [order, model] : held)
    if (!takes(model->need_bytes)) return false;
  return takes(further_bytes);
}

// A model that is too large for all devices is loaded alone: more of them may come.
bool ModelShelf::Fits(const Model& model) const {
  const Line held = Holding(true);
  return model.is_pinned || held.empty() || FitTogether(held, model.need_bytes);
}

bool ModelShelf::IsIdle(const Model& model) const {
  // Requests that wait for an open one are about to begin.
  const bool is_wanted = model.waiting > 0 && !model.is_closed && !model.was_closed;
  return model.state == State::kLoaded && model.under_way == 0 && !is_wanted;
}

void ModelShelf::LookAt(Instant time) {
  if (!next_look_ || time < *next_look_) next_look_ = time;
}

void ModelShelf::Unload(const std::string& name, Model& model, std::vector<Action>& actions) {
  model.state = State::kUnloading;
  actions.push_back({Action::Kind::kUnload, name});
}

std::vector<ModelShelf::Action> ModelShelf::Next(Instant now) {
  std::vector<Action> actions;
  next_look_.reset();
  for (auto& [name, model] : models_) model.was_closed = std::exchange(model.is_closed, false);
  UnloadAsked(actions);
  std::vector<std::pair<uint64_t, const std::string*>> wanted;
  for (const auto& [name, model] : models_) {
    if (model.state != State::kOnDisk || (model.waiting == 0 && !model.is_pinned)) continue;
    const bool is_due = !model.failed_at || now >= *model.failed_at + options_.retry;
    if (model.waiting > 0 || is_due)
      wanted.emplace_back(model.asked, &name);
    else
      LookAt(*model.failed_at + options_.retry);
  }
  std::ranges::stable_sort(wanted, {}, [](const auto& each) { return each.first; });
  UnloadExpired(now, actions);
  for (const auto& [asked, name] : wanted) {
    Model& model = models_.at(*name);
    if (!Fits(model)) {
      MakeRoom(model.need_bytes, now, actions);
      return actions;  // whoever asked later would take what becomes free
    }
    model.state = State::kLoading;
    model.order = ++loads_;
    actions.push_back({Action::Kind::kLoad, *name});
  }
  MakeRoom(0, now, actions);
  return actions;
}

void ModelShelf::UnloadAsked(std::vector<Action>& actions) {
  for (auto& [name, model] : models_)
    if (model.is_to_go && model.state == State::kLoaded && model.under_way == 0)
      Unload(name, model, actions);
}

void ModelShelf::UnloadExpired(Instant now, std::vector<Action>& actions) {
  for (auto& [name, model] : models_) {
    const auto end = EndOf(name);
    if (!end || model.waiting > 0) continue;
    if (now >= *end)
      Unload(name, model, actions);
    else
      LookAt(*end);
  }
}

void ModelShelf::MakeRoom(uint64_t further_bytes, Instant now, std::vector<Action>& actions) {
  const bool is_for_another = further_bytes > 0;
  const auto is_enough = [&](const Line& staying) {
    return staying.size() <= (is_for_another ? 0 : 1) || FitTogether(staying, further_bytes);
  };
  Line staying = Holding(false), busy;
  std::vector<std::pair<Instant, std::string>> idle;
  for (const auto& [name, model] : models_) {
    if (!staying.contains(model.order) || staying[model.order] != &model) continue;
    if (model.is_pinned || !IsIdle(model))
      busy.emplace(model.order, &model);
    else
      idle.emplace_back(model.used_at, name);
  }
  const bool idle_suffice = is_enough(busy);
  std::sort(idle.begin(), idle.end());
  for (const auto& [used_at, name] : idle) {
    if (is_enough(staying)) return;
    Model& model = models_.at(name);
    // It is to be had when the busy ones are done, too; others may ask it until then.
    if (!idle_suffice && now < model.loaded_at + options_.turn) {
      LookAt(model.loaded_at + options_.turn);
      continue;
    }
    staying.erase(model.order);
    Unload(name, model, actions);
  }
  if (!is_enough(staying)) CloseSome(std::move(staying), further_bytes, now);
}

// The longest loaded ones take no more requests, until the others leave room.
void ModelShelf::CloseSome(Line staying, uint64_t further_bytes, Instant now) {
  const Line line = staying;
  for (const auto& [order, held] : line) {
    if (held->state != State::kLoaded || held->is_pinned) continue;
    if (now < held->loaded_at + options_.turn) return LookAt(held->loaded_at + options_.turn);
    for (auto& [name, model] : models_)
      if (&model == held) model.is_closed = true;
    staying.erase(order);
    const bool is_enough = staying.size() <= (further_bytes > 0 ? 0 : 1);
    if (is_enough || FitTogether(staying, further_bytes)) return;
  }
}

}  // namespace weft::server
