// The parts of an operation's message that several operations have, for the generated codec: views,
// rows of a weight, rotations. Only codec.cc includes it, by op_codec.gen.h.
#pragma once

#include "program/ir.h"
#include "program/program.pb.h"

namespace weft::program {

inline void Put(const View& view, pb::View* out) {
  out->set_buffer(view.buffer);
  out->set_first_column(view.first_column);
  out->set_columns(view.columns);
}

inline void Put(const WeightView& view, pb::WeightView* out) {
  out->set_weight(view.weight);
  out->set_first_row(view.first_row);
  out->set_rows(view.rows);
}

inline void Put(const Rope& rope, pb::Rope* out) {
  out->set_inv_freq(rope.inv_freq);
  out->set_scale(rope.scale);
  out->set_interleaved(rope.interleaved);
}

inline View Take(const pb::View& in) {
  return {in.buffer(), in.first_column(), in.columns()};
}

inline WeightView Take(const pb::WeightView& in) {
  return {in.weight(), in.first_row(), in.rows()};
}

inline Rope Take(const pb::Rope& in) {
  return {in.inv_freq(), in.scale(), in.interleaved()};
}

}  // namespace weft::program
