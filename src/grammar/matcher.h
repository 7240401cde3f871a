// Where a text is in a grammar: which bytes may come next, and whether it may end. A copy is cheap:
// copies share what is behind them.
//
//   Matcher matcher(automaton);
//   matcher.Advance("{\"name\": ");   // true; false leaves it where it was
//   matcher.CanEnd();                 // false
//
// A matcher and its copies, and those of its copies, belong to one thread at a time.
#pragma once

#include <bitset>
#include <memory>
#include <string>
#include <string_view>

#include "grammar/automaton.h"
#include "grammar/stepper.h"

namespace weft::grammar {

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const Automaton> automaton);

  // Moves on by `bytes`, half characters as well. False: the grammar does not go on so, and nothing
  // has changed.
  bool Advance(std::string_view bytes);
  // Whether Advance would be true.
  bool Accepts(std::string_view bytes) const { return AcceptedBytes(bytes) == bytes.size(); }
  // How many of the bytes are accepted, from the first one on.
  size_t AcceptedBytes(std::string_view bytes) const;
  bool CanEnd() const { return places_.at_end; }
  // Nothing may come any more; the text is at its end.
  bool IsOver() const { return places_.items.empty(); }
  // The bytes that may come next.
  std::bitset<256> NextBytes() const;
  // What must come next as long as one byte alone may and the text may not end; at most
  // `most_bytes` of it.
  std::string ForcedBytes(size_t most_bytes) const;
  // The least number of bytes to an end.
  uint32_t BytesToEnd() const;

  const Items& places() const { return places_; }
  Stepper& stepper() const { return *stepper_; }

 private:
  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<Stepper> stepper_;  // of all copies
  Items places_;
};

}  // namespace weft::grammar
