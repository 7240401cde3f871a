// Field by field between program.proto and ir.h; the meaning is checked by Validate (validate.cc).
#include "program/codec.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "program/program.pb.h"

namespace weft::program {
namespace {

constexpr size_t kMaxProgramBytes = 16 << 20;
constexpr int kMaxItems = 1 << 16;  // buffers, weights, operations or parts of one program

Error Invalid(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

// ---- writing

void Put(const std::vector<Part>& parts, google::protobuf::RepeatedPtrField<pb::Part>* out) {
  for (const Part& part : parts) {
    pb::Part* p = out->Add();
    p->set_digest(part.digest.data(), part.digest.size());
    p->set_offset(part.offset);
    p->set_byte_count(part.byte_count);
  }
}

void Put(const Weight& weight, pb::Weight* out) {
  out->set_name(weight.name);
  out->set_dtype(static_cast<uint32_t>(weight.dtype));
  for (const uint64_t dimension : weight.shape) out->add_shape(dimension);
  Put(weight.data, out->mutable_data());
  Put(weight.scale, out->mutable_scale());
  Put(weight.zero, out->mutable_zero());
}

void Put(const View& view, pb::View* out) {
  out->set_buffer(view.buffer);
  out->set_first_column(view.first_column);
  out->set_columns(view.columns);
}

// Writes one operation into its message of the oneof.
struct OpWriter {
  pb::Op* out;

  void operator()(const Embed& op) const {
    auto* o = out->mutable_embed();
    o->set_weight(op.weight);
    Put(op.out, o->mutable_out());
    o->set_scale(op.scale);
  }
  void operator()(const RmsNorm& op) const {
    auto* o = out->mutable_rms_norm();
    Put(op.in, o->mutable_in());
    Put(op.out, o->mutable_out());
    o->set_weight(op.weight);
    o->set_epsilon(op.epsilon);
  }
  void operator()(const LayerNorm& op) const {
    auto* o = out->mutable_layer_norm();
    Put(op.in, o->mutable_in());
    Put(op.out, o->mutable_out());
    o->set_weight(op.weight);
    if (op.bias) o->set_bias(*op.bias);
    o->set_epsilon(op.epsilon);
  }
  void operator()(const MatMul& op) const {
    auto* o = out->mutable_matmul();
    Put(op.in, o->mutable_in());
    Put(op.out, o->mutable_out());
    o->mutable_weight()->set_weight(op.weight.weight);
    o->mutable_weight()->set_first_row(op.weight.first_row);
    o->mutable_weight()->set_rows(op.weight.rows);
    if (op.bias) o->set_bias(*op.bias);
  }
  void operator()(const Add& op) const {
    auto* o = out->mutable_add();
    Put(op.a, o->mutable_a());
    Put(op.b, o->mutable_b());
    Put(op.out, o->mutable_out());
  }
  void operator()(const Scale& op) const {
    auto* o = out->mutable_scale();
    Put(op.in, o->mutable_in());
    Put(op.out, o->mutable_out());
    o->set_factor(op.factor);
  }
  void operator()(const Softcap& op) const {
    auto* o = out->mutable_softcap();
    Put(op.in, o->mutable_in());
    Put(op.out, o->mutable_out());
    o->set_cap(op.cap);
  }
  void operator()(const QkNormRope& op) const {
    auto* o = out->mutable_qk_norm_rope();
    Put(op.in, o->mutable_in());
    Put(op.out, o->mutable_out());
    o->set_heads(op.heads);
    o->set_head_columns(op.head_columns);
    if (op.norm_weight) o->set_norm_weight(*op.norm_weight);
    o->set_epsilon(op.epsilon);
    if (!op.rope) return;
    o->mutable_rope()->set_inv_freq(op.rope->inv_freq);
    o->mutable_rope()->set_scale(op.rope->scale);
    o->mutable_rope()->set_interleaved(op.rope->interleaved);
  }
  void operator()(const Attention& op) const {
    auto* o = out->mutable_attention();
    Put(op.q, o->mutable_q());
    Put(op.k, o->mutable_k());
    Put(op.v, o->mutable_v());
    if (op.kv_layer) o->set_kv_layer(*op.kv_layer);
    Put(op.out, o->mutable_out());
    o->set_heads(op.heads);
    o->set_kv_heads(op.kv_heads);
    o->set_head_columns(op.head_columns);
    o->set_scale(op.scale);
    o->set_window(op.window);
    o->set_softcap(op.softcap);
    if (op.sinks) o->set_sinks(*op.sinks);
    o->set_value_columns(op.value_columns);
  }
  void operator()(const GatedActivation& op) const {
    auto* o = out->mutable_gated_activation();
    Put(op.gate, o->mutable_gate());
    Put(op.up, o->mutable_up());
    Put(op.out, o->mutable_out());
    o->set_kind(static_cast<uint32_t>(op.kind));
  }
  void operator()(const MoeRoute& op) const {
    auto* o = out->mutable_moe_route();
    Put(op.logits, o->mutable_logits());
    Put(op.out, o->mutable_out());
    o->set_experts(op.experts);
    o->set_top_k(op.top_k);
    o->set_kind(static_cast<uint32_t>(op.kind));
    if (op.bias) o->set_bias(*op.bias);
    if (op.groups > 1) {
      o->set_groups(op.groups);
      o->set_top_groups(op.top_groups);
      o->set_group_best(op.group_best);
    }
    if (op.scale != 1) o->set_scale(op.scale);
  }
  void operator()(const MoeExperts& op) const {
    auto* o = out->mutable_moe_experts();
    Put(op.in, o->mutable_in());
    Put(op.route, o->mutable_route());
    Put(op.out, o->mutable_out());
    o->set_experts(op.experts);
    o->set_top_k(op.top_k);
    o->set_kind(static_cast<uint32_t>(op.kind));
    o->set_gate_up(op.gate_up);
    o->set_down(op.down);
    if (op.gate_up_bias) o->set_gate_up_bias(*op.gate_up_bias);
    if (op.down_bias) o->set_down_bias(*op.down_bias);
    o->set_grid_step(op.grid.step);
    o->set_grid_limit(op.grid.limit);
  }
  void operator()(const Exchange& op) const {
    auto* o = out->mutable_exchange();
    Put(op.out, o->mutable_out());
    Put(op.in, o->mutable_in());
    o->set_id(op.id);
  }
  void operator()(const SlotExchange& op) const {
    auto* o = out->mutable_slot_exchange();
    Put(op.in, o->mutable_in());
    Put(op.route, o->mutable_route());
    Put(op.out, o->mutable_out());
    o->set_experts(op.experts);
    o->set_top_k(op.top_k);
    o->set_sums(op.sums);
    o->set_grid_step(op.grid.step);
    o->set_grid_limit(op.grid.limit);
  }
  void operator()(const Gate& op) const {
    auto* o = out->mutable_gate();
    Put(op.in, o->mutable_in());
    Put(op.gate, o->mutable_gate());
    Put(op.out, o->mutable_out());
    o->set_kind(static_cast<uint32_t>(op.kind));
  }
  void operator()(const CausalConv& op) const {
    auto* o = out->mutable_causal_conv();
    Put(op.in, o->mutable_in());
    Put(op.out, o->mutable_out());
    o->set_weight(op.weight);
    if (op.bias) o->set_bias(*op.bias);
    o->set_silu(op.silu);
  }
  void operator()(const DeltaRule& op) const {
    auto* o = out->mutable_delta_rule();
    Put(op.q, o->mutable_q());
    Put(op.k, o->mutable_k());
    Put(op.v, o->mutable_v());
    Put(op.a, o->mutable_a());
    Put(op.b, o->mutable_b());
    Put(op.out, o->mutable_out());
    o->set_key_heads(op.key_heads);
    o->set_value_heads(op.value_heads);
    o->set_key_columns(op.key_columns);
    o->set_value_columns(op.value_columns);
    o->set_decay(op.decay);
    o->set_dt_bias(op.dt_bias);
    o->set_groups(static_cast<uint32_t>(op.groups));
  }
  void operator()(const SsmScan& op) const {
    auto* o = out->mutable_ssm_scan();
    Put(op.x, o->mutable_x());
    Put(op.b_in, o->mutable_b());
    Put(op.c_in, o->mutable_c());
    Put(op.dt, o->mutable_dt());
    Put(op.out, o->mutable_out());
    o->set_heads(op.heads);
    o->set_head_columns(op.head_columns);
    o->set_groups(op.groups);
    o->set_state_columns(op.state_columns);
    o->set_decay(op.decay);
    o->set_dt_bias(op.dt_bias);
    o->set_skip(op.skip);
    o->set_dt_min(op.dt_min);
    o->set_dt_max(op.dt_max);
  }
};

// ---- reading

View ToView(const pb::View& in) {
  return {in.buffer(), in.first_column(), in.columns()};
}

Status Take(const google::protobuf::RepeatedPtrField<pb::Part>& in, const std::string& weight,
            std::vector<Part>* out) {
  for (const pb::Part& p : in) {
    Part part{.digest = {}, .offset = p.offset(), .byte_count = p.byte_count()};
    if (p.digest().size() != part.digest.size()) {
      return Invalid("A part of weight '" + weight + "' has a digest of " +
                     std::to_string(p.digest().size()) + " bytes; expected 32.");
    }
    std::copy(p.digest().begin(), p.digest().end(), part.digest.begin());
    out->push_back(part);
  }
  return OkStatus();
}

Result<Weight> ToWeight(const pb::Weight& in) {
  Weight weight;
  weight.name = in.name();
  if (in.dtype() > UINT8_MAX) {
    return Invalid("Weight '" + in.name().substr(0, 200) + "' has dtype " +
                   std::to_string(in.dtype()) + ", which is none.");
  }
  weight.dtype = static_cast<DType>(in.dtype());
  weight.shape.assign(in.shape().begin(), in.shape().end());
  const std::string name = in.name().substr(0, 200);
  TRY(Take(in.data(), name, &weight.data));
  TRY(Take(in.scale(), name, &weight.scale));
  TRY(Take(in.zero(), name, &weight.zero));
  return weight;
}

QkNormRope ToQkNormRope(const pb::QkNormRope& in) {
  QkNormRope op{.in = ToView(in.in()),
                .out = ToView(in.out()),
                .heads = in.heads(),
                .head_columns = in.head_columns(),
                .norm_weight = {},
                .epsilon = in.epsilon(),
                .rope = {}};
  if (in.has_norm_weight()) op.norm_weight = in.norm_weight();
  if (in.has_rope()) {
    op.rope = Rope{in.rope().inv_freq(), in.rope().scale(), in.rope().interleaved()};
  }
  return op;
}

Attention ToAttention(const pb::Attention& in) {
  Attention op{.q = ToView(in.q()),
               .k = ToView(in.k()),
               .v = ToView(in.v()),
               .out = ToView(in.out()),
               .heads = in.heads(),
               .kv_heads = in.kv_heads(),
               .head_columns = in.head_columns(),
               .scale = in.scale(),
               .window = in.window(),
               .softcap = in.softcap(),
               .sinks = {},
               .value_columns = in.value_columns(),
               .kv_layer = {}};
  if (in.has_sinks()) op.sinks = in.sinks();
  if (in.has_kv_layer()) op.kv_layer = in.kv_layer();
  return op;
}

MoeRoute ToMoeRoute(const pb::MoeRoute& in) {
  MoeRoute op{.logits = ToView(in.logits()),
              .out = ToView(in.out()),
              .experts = in.experts(),
              .top_k = in.top_k(),
              .kind = static_cast<RouteKind>(in.kind())};
  if (in.has_bias()) op.bias = in.bias();
  if (in.groups() > 1) {
    op.groups = in.groups();
    op.top_groups = in.top_groups();
    op.group_best = in.group_best();
  }
  if (in.scale() != 0) op.scale = in.scale();
  return op;
}

MoeExperts ToMoeExperts(const pb::MoeExperts& in) {
  MoeExperts op{.in = ToView(in.in()),
                .route = ToView(in.route()),
                .out = ToView(in.out()),
                .experts = in.experts(),
                .top_k = in.top_k(),
                .kind = static_cast<Activation>(in.kind()),
                .gate_up = in.gate_up(),
                .down = in.down(),
                .gate_up_bias = {},
                .down_bias = {},
                .grid = {in.grid_step(), in.grid_limit()}};
  if (in.has_gate_up_bias()) op.gate_up_bias = in.gate_up_bias();
  if (in.has_down_bias()) op.down_bias = in.down_bias();
  return op;
}

CausalConv ToCausalConv(const pb::CausalConv& in) {
  CausalConv op{ToView(in.in()), ToView(in.out()), in.weight(), {}, in.silu()};
  if (in.has_bias()) op.bias = in.bias();
  return op;
}

DeltaRule ToDeltaRule(const pb::DeltaRule& in) {
  return {.q = ToView(in.q()),
          .k = ToView(in.k()),
          .v = ToView(in.v()),
          .out = ToView(in.out()),
          .a = ToView(in.a()),
          .b = ToView(in.b()),
          .key_heads = in.key_heads(),
          .value_heads = in.value_heads(),
          .key_columns = in.key_columns(),
          .value_columns = in.value_columns(),
          .decay = in.decay(),
          .dt_bias = in.dt_bias(),
          .groups = static_cast<KeyGroups>(in.groups())};
}

SsmScan ToSsmScan(const pb::SsmScan& in) {
  return {.x = ToView(in.x()),
          .out = ToView(in.out()),
          .b_in = ToView(in.b()),
          .c_in = ToView(in.c()),
          .dt = ToView(in.dt()),
          .heads = in.heads(),
          .head_columns = in.head_columns(),
          .groups = in.groups(),
          .state_columns = in.state_columns(),
          .decay = in.decay(),
          .dt_bias = in.dt_bias(),
          .skip = in.skip(),
          .dt_min = in.dt_min(),
          .dt_max = in.dt_max()};
}

SlotExchange ToSlotExchange(const pb::SlotExchange& in) {
  return {.in = ToView(in.in()),
          .route = ToView(in.route()),
          .out = ToView(in.out()),
          .experts = in.experts(),
          .top_k = in.top_k(),
          .sums = in.sums(),
          .grid = {in.grid_step(), in.grid_limit()}};
}

Result<Op> ToOp(const pb::Op& in) {
  switch (in.kind_case()) {
    case pb::Op::kEmbed:
      return Op(Embed{in.embed().weight(), ToView(in.embed().out()), in.embed().scale()});
    case pb::Op::kRmsNorm: {
      const pb::RmsNorm& op = in.rms_norm();
      return Op(RmsNorm{ToView(op.in()), ToView(op.out()), op.weight(), op.epsilon()});
    }
    case pb::Op::kLayerNorm: {
      const pb::LayerNorm& op = in.layer_norm();
      LayerNorm out{ToView(op.in()), ToView(op.out()), op.weight(), {}, op.epsilon()};
      if (op.has_bias()) out.bias = op.bias();
      return Op(out);
    }
    case pb::Op::kMatmul: {
      const pb::MatMul& op = in.matmul();
      MatMul out{ToView(op.in()),
                 ToView(op.out()),
                 {op.weight().weight(), op.weight().first_row(), op.weight().rows()},
                 {}};
      if (op.has_bias()) out.bias = op.bias();
      return Op(out);
    }
    case pb::Op::kAdd:
      return Op(Add{ToView(in.add().a()), ToView(in.add().b()), ToView(in.add().out())});
    case pb::Op::kScale:
      return Op(Scale{ToView(in.scale().in()), ToView(in.scale().out()), in.scale().factor()});
    case pb::Op::kSoftcap:
      return Op(Softcap{ToView(in.softcap().in()), ToView(in.softcap().out()), in.softcap().cap()});
    case pb::Op::kQkNormRope:
      return Op(ToQkNormRope(in.qk_norm_rope()));
    case pb::Op::kAttention:
      return Op(ToAttention(in.attention()));
    case pb::Op::kGatedActivation: {
      const pb::GatedActivation& op = in.gated_activation();
      return Op(GatedActivation{ToView(op.gate()), ToView(op.up()), ToView(op.out()),
                                static_cast<Activation>(op.kind())});
    }
    case pb::Op::kMoeRoute:
      return Op(ToMoeRoute(in.moe_route()));
    case pb::Op::kMoeExperts:
      return Op(ToMoeExperts(in.moe_experts()));
    case pb::Op::kExchange: {
      const pb::Exchange& op = in.exchange();
      return Op(Exchange{ToView(op.out()), ToView(op.in()), op.id()});
    }
    case pb::Op::kSlotExchange:
      return Op(ToSlotExchange(in.slot_exchange()));
    case pb::Op::kGate: {
      const pb::Gate& op = in.gate();
      return Op(Gate{ToView(op.in()), ToView(op.gate()), ToView(op.out()),
                     static_cast<GateKind>(op.kind())});
    }
    case pb::Op::kCausalConv:
      return Op(ToCausalConv(in.causal_conv()));
    case pb::Op::kDeltaRule:
      return Op(ToDeltaRule(in.delta_rule()));
    case pb::Op::kSsmScan:
      return Op(ToSsmScan(in.ssm_scan()));
    case pb::Op::KIND_NOT_SET:
      break;
  }
  return Invalid("An operation of the program is of no kind that this weft knows.");
}

Result<Program> ToProgram(const pb::Program& in) {
  if (in.version() < kOldestProgramVersion || in.version() > kProgramVersion) {
    const bool newer = in.version() > kProgramVersion;
    return Error(ErrorCode::kUnsupported,
                 "This program has version " + std::to_string(in.version()) +
                     "; this weft runs versions " + std::to_string(kOldestProgramVersion) + " to " +
                     std::to_string(kProgramVersion) + ". " +
                     (newer ? "Update weft." : "Make the package again with `weft convert`."));
  }
  for (const int count : {in.buffers_size(), in.weights_size(), in.ops_size()}) {
    if (count > kMaxItems) {
      return Invalid("The program has " + std::to_string(count) +
                     " buffers, weights or operations; at most " + std::to_string(kMaxItems) +
                     " are read.");
    }
  }
  Program program;
  program.layer_index = in.layer_index();
  for (const pb::Buffer& buffer : in.buffers()) {
    program.buffers.push_back({buffer.name(), buffer.columns()});
  }
  for (const pb::Weight& weight : in.weights()) {
    ASSIGN_OR_RETURN(Weight read, ToWeight(weight));
    if (const uint32_t needed = VersionOf(read.dtype); in.version() < needed) {
      return Invalid("Weight '" + read.name.substr(0, 200) + "' is " +
                     std::string(DTypeName(read.dtype)) + " in a program of version " +
                     std::to_string(in.version()) + "; that dtype begins with version " +
                     std::to_string(needed) + ".");
    }
    program.weights.push_back(std::move(read));
  }
  for (const pb::Op& op : in.ops()) {
    ASSIGN_OR_RETURN(Op read, ToOp(op));
    program.ops.push_back(read);
  }
  if (in.has_input()) program.input = in.input();
  program.output = in.output();
  return program;
}

}  // namespace

uint32_t VersionOf(DType dtype) {
  return IsSuperblockFormat(dtype) ? 2 : kOldestProgramVersion;
}

uint32_t VersionOf(const Program& program) {
  uint32_t version = kOldestProgramVersion;
  for (const Weight& weight : program.weights) version = std::max(version, VersionOf(weight.dtype));
  return version;
}

std::vector<uint8_t> Encode(const Program& program) {
  pb::Program out;
  out.set_version(VersionOf(program));
  out.set_layer_index(program.layer_index);
  for (const Buffer& buffer : program.buffers) {
    pb::Buffer* b = out.add_buffers();
    b->set_name(buffer.name);
    b->set_columns(buffer.columns);
  }
  for (const Weight& weight : program.weights) Put(weight, out.add_weights());
  for (const Op& op : program.ops) std::visit(OpWriter{out.add_ops()}, op);
  if (program.input) out.set_input(*program.input);
  out.set_output(program.output);
  std::vector<uint8_t> bytes(out.ByteSizeLong());
  CHECK(out.SerializeToArray(bytes.data(), static_cast<int>(bytes.size())));
  return bytes;
}

Result<Program> Decode(ByteSpan bytes) {
  if (bytes.size() > kMaxProgramBytes) {
    return Invalid("The program has " + std::to_string(bytes.size()) + " bytes; at most " +
                   std::to_string(kMaxProgramBytes) + " are read.");
  }
  pb::Program message;
  const google::protobuf::LogSilencer silencer;  // the fault is in the Result
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Invalid("The " + std::to_string(bytes.size()) +
                   " bytes offered as a program are not an encoded program.");
  }
  ASSIGN_OR_RETURN(Program program, ToProgram(message));
  TRY(Validate(program));
  return program;
}

}  // namespace weft::program
