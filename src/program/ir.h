// The program of one layer: a flat list of LLM-level operations over named f32 buffers and weights.
// Operations run in order; a buffer may be written again. Engines interpret it; the planner never
// sees it.
//
// Shapes: every buffer is [rows, columns] f32, rows = tokens of a ragged batch. Weights of a MatMul
// are [N, K] (out = in * W^T + bias), as checkpoints store them. Layer 0 begins with Embed, which
// reads token ids, and may have more of them (a table for each layer); the last layer ends with
// logits [rows, vocabulary] in its output buffer; selection (argmax, candidates, ...) is what each
// row asks of the engine (engine/engine.h), not part of a program.
//
// Aliasing: Add, Scale, Softcap, RmsNorm, LayerNorm, QkNormRope, GatedActivation and Gate may write
// exactly the view that they read (in place); every other overlap of an operation's output with its
// inputs is refused by the codec, as is reading columns that nothing wrote before.
//
// Recurrent operations (CausalConv, DeltaRule, SsmScan) carry f32 state of a fixed size from row to
// row of a session, zero before position 0. A layer's state is that of its operations one after the
// other, in the order of the program (program/state.h). Rows are taken strictly in order, one at a
// time: a form that takes chunks would change bits with the cut of a prompt.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/sha256.h"
#include "tensor/dtype.h"

namespace weft::program {

// Version of program.proto and of the meanings below; a package with a newer one is refused with
// both numbers. A program is written with the least version that has what it needs (VersionOf of
// codec.h): 2 has the dtype q4s.
inline constexpr uint32_t kProgramVersion = 2;
inline constexpr uint32_t kOldestProgramVersion = 1;

// Taps of a CausalConv, and columns that a state is summed over: what engines keep in registers and
// in workgroup memory.
inline constexpr uint32_t kMaxConvTaps = 8;
inline constexpr uint32_t kMaxStateColumns = 256;

// Groups of a MoeRoute, and the experts that a group is judged by: kernels keep them in registers.
inline constexpr uint32_t kMaxRouteGroups = 64;
inline constexpr uint32_t kMaxGroupBest = 2;

using BufferId = uint32_t;
using WeightId = uint32_t;

// Bytes [offset, offset + byte_count) of the blob with this digest.
struct Part {
  Sha256Digest digest{};
  uint64_t offset = 0;
  uint64_t byte_count = 0;
};

// A tensor of the model. Its data is the concatenation of its parts (a stacked expert tensor has
// one or more parts an expert). Arrays of block formats: tensor/dtype.h.
struct Weight {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // [columns], [rows, columns] or [experts, rows, columns]
  std::vector<Part> data;
  std::vector<Part> scale;  // block formats only
  std::vector<Part> zero;   // q4 with zero points only
};

struct Buffer {
  std::string name;
  uint32_t columns = 0;
};

// Columns [first_column, first_column + columns) of a buffer.
struct View {
  BufferId buffer = 0;
  uint32_t first_column = 0;
  uint32_t columns = 0;
};

// Rows [first_row, first_row + rows) of a 2-D weight: packed q/k/v and gate/up are views of one
// weight.
struct WeightView {
  WeightId weight = 0;
  uint32_t first_row = 0;
  uint32_t rows = 0;
};

enum class Activation : uint32_t {
  kSilu = 0,       // silu(gate) * up
  kGeluTanh = 1,   // gelu(gate), tanh form, * up
  kGelu = 2,       // gelu(gate), erf form, * up
  kSwigluOai = 3,  // gpt-oss: gate <= 7, |up| <= 7, gate * sigmoid(1.702 gate) * (up + 1)
  kRelu = 4,       // max(gate, 0) * up; where one value is both, its square or 0
};

enum class RouteKind : uint32_t {
  // Softmax over all experts, then the top k weights as they are.
  kSoftmaxTopK = 0,
  // The same, weights divided by their sum (equal to softmax over the top k logits).
  kSoftmaxTopKNormalized = 1,
  // The sigmoid of each logit, of the top k as it is, or divided by their sum.
  kSigmoidTopK = 2,
  kSigmoidTopKNormalized = 3,
  // Every expert in order with weight 1, whatever the logits are: neuron groups (neuron_groups.h).
  kAll = 4,
};

// x * cos + rotate(x) * sin on the first 2 * len(inv_freq) columns of each head, angle = position *
// inv_freq.
struct Rope {
  WeightId inv_freq = 0;     // f32 [rotary_columns / 2]
  float scale = 1;           // multiplies cos and sin (yarn's attention factor)
  bool interleaved = false;  // pairs (2i, 2i + 1) instead of (i, i + half)
};

struct Embed {
  WeightId weight = 0;  // [vocabulary, columns]
  View out;
  float scale = 1;
};
// out = in / sqrt(mean(in^2) + epsilon) * weight, the mean over the row, or over each group of
// neighbouring columns where the weight has a row for each of them. A "1 + weight" form is folded
// into the weight by the converter.
struct RmsNorm {
  View in, out;
  WeightId weight = 0;  // [columns], or [groups, columns / groups]
  float epsilon = 0;
};
struct LayerNorm {
  View in, out;
  WeightId weight = 0;
  std::optional<WeightId> bias;
  float epsilon = 0;
};
struct MatMul {
  View in, out;
  WeightView weight;
  std::optional<WeightId> bias;  // [out.columns]
};
struct Add {
  View a, b, out;
};
struct Scale {
  View in, out;
  float factor = 1;
};
// out = cap * tanh(in / cap)
struct Softcap {
  View in, out;
  float cap = 0;
};
// Per head of `in` [rows, heads * head_columns]: RMS norm when norm_weight is set, then rotation
// when rope is set.
struct QkNormRope {
  View in, out;
  uint32_t heads = 0;
  uint32_t head_columns = 0;
  std::optional<WeightId> norm_weight;  // [head_columns]
  float epsilon = 0;
  std::optional<Rope> rope;
};
// Appends k and v to the session's KV of this layer, in place, then causal grouped-query attention
// over positions (row position - window, row position]. At most one Attention in a program.
//
// With kv_layer it appends nothing, `k` and `v` are views of no columns, and it attends to the KV
// of that earlier layer, which has kv_heads and head_columns, too: the two run in one step.
struct Attention {
  View q, k, v, out;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_columns = 0;
  float scale = 0;
  uint32_t window = 0;  // 0: the whole past
  float softcap = 0;    // 0: none
  // [heads]: an extra logit a head that takes part in the softmax only.
  std::optional<WeightId> sinks;
  // 0: values are `v`, head_columns wide, as `out` is. Else values lie in the keys, of which they
  // are the last value_columns, and are kept there alone; `v` is `k`, and `out` has
  // heads * value_columns (latent attention: a key is [rotated | latent], a value the latent).
  uint32_t value_columns = 0;
  std::optional<uint32_t> kv_layer;
};
// An MLP without a gate has one product that is both.
struct GatedActivation {
  View gate, up, out;
  Activation kind = Activation::kSilu;
};
enum class GateKind : uint32_t {
  kIdentity = 0,  // in * gate
  kSigmoid = 1,   // in * sigmoid(gate)
  kSilu = 2,      // in * gate * sigmoid(gate)
};
// out = in * f(gate); `gate` has the columns of `in`, or one, which then scales the whole row.
struct Gate {
  View in, gate, out;
  GateKind kind = GateKind::kSigmoid;
};
// A causal convolution of each column with its own taps:
//   out[t] = f(sum over j of weight[column, j] * in[t - taps + 1 + j] (+ bias[column])),
// f = silu or the identity. State: the last taps - 1 rows of `in`, the oldest first,
// [taps - 1, columns].
struct CausalConv {
  View in, out;
  WeightId weight = 0;           // f32 [columns, taps]
  std::optional<WeightId> bias;  // [columns]
  bool silu = false;
};
// Which key head a value head j reads, where key heads are fewer.
enum class KeyGroups : uint32_t {
  kGrouped = 0,  // j / (value_heads / key_heads): neighbours share one
  kTiled = 1,    // j % key_heads
};
// The gated delta rule. Per value head, with its key head's q and k, each divided by
// sqrt(sum of squares + 1e-6) and q by sqrt(key_columns), too, and
//   g = decay * softplus(a + dt_bias), beta = sigmoid(b):
//   S <- e^g S;  r = S^T k;  S <- S + k (beta (v - r))^T;  out = S^T q.
// State: S of every value head, [value_heads, key_columns, value_columns].
struct DeltaRule {
  View q, k;    // [rows, key_heads * key_columns]
  View v, out;  // [rows, value_heads * value_columns]
  View a, b;    // [rows, value_heads]
  uint32_t key_heads = 0;
  uint32_t value_heads = 0;
  uint32_t key_columns = 0;
  uint32_t value_columns = 0;
  WeightId decay = 0;    // [value_heads], -exp(A_log): not above 0
  WeightId dt_bias = 0;  // [value_heads]
  KeyGroups groups = KeyGroups::kGrouped;
};
// Mamba2's selective scan. Head j reads b and c of group j / (heads / groups), and with
//   dt = clamp(softplus(dt + dt_bias), dt_min, dt_max), per column x of the head:
//   S <- e^(decay * dt) S + (dt * x) b;  out = S . c + skip * x.
// State: [heads, state_columns, head_columns].
struct SsmScan {
  View x, out;      // [rows, heads * head_columns]
  View b_in, c_in;  // [rows, groups * state_columns]
  View dt;          // [rows, heads]
  uint32_t heads = 0;
  uint32_t head_columns = 0;
  uint32_t groups = 0;
  uint32_t state_columns = 0;
  WeightId decay = 0;    // [heads], -exp(A_log): not above 0
  WeightId dt_bias = 0;  // [heads]
  WeightId skip = 0;     // [heads], D
  float dt_min = 0;
  float dt_max = 0;  // 0: no upper limit
};
// score = softmax or sigmoid of the logits; the experts with the greatest score + bias are chosen,
// and a chosen one's weight is scale * score, without the bias (over the sum of the chosen scores,
// where `kind` says so). With more than one group only experts of the best groups keep what they
// are chosen by, the others are at 0 there: neighbours are a group of experts / groups, and a group
// is worth the sum of its group_best greatest.
struct MoeRoute {
  View logits;  // [rows, experts]
  // [rows, 2 * top_k]: expert indices as f32, then their weights; ties go to the lower index.
  View out;
  uint32_t experts = 0;
  uint32_t top_k = 0;
  RouteKind kind = RouteKind::kSoftmaxTopK;
  std::optional<WeightId> bias;  // f32 [experts]
  uint32_t groups = 1;
  uint32_t top_groups = 1;
  uint32_t group_best = 1;  // at most kMaxGroupBest
  float scale = 1;
};
// Values are rounded to multiples of `step`, at most `limit` of them, before they are added: sums
// of up to 2^24 / limit such values are exact in f32, in any order. A step of 0: not rounded.
struct SumGrid {
  float step = 0;   // a power of two
  float limit = 0;  // a whole number, at most 2^22
};
// out = sum over the row's experts of weight * (down_e * activation(gate_e * in, up_e * in)).
// Experts without a gate have `width` rows in gate_up, which are gate_e and up_e.
struct MoeExperts {
  View in, route, out;
  uint32_t experts = 0;
  uint32_t top_k = 0;
  Activation kind = Activation::kSilu;
  WeightId gate_up = 0;  // [experts, 2 * width or width, columns]: gate rows, then up rows
  WeightId down = 0;     // [experts, columns, width]
  std::optional<WeightId> gate_up_bias;
  std::optional<WeightId> down_bias;
  SumGrid grid;  // of every expert's output (neuron_groups.h)
};
// The engine stops here, gives out `out`, and goes on when it is handed `in`.
struct Exchange {
  View out, in;
  uint32_t id = 0;
};
// What stands where MoeExperts was in a hub's program (shards.h): the engine stops here, gives the
// rows of `in` and `route` away, and goes on when it is handed one row of out.columns for every
// slot, which is a row and one of its top_k experts. out = sum over a row's slots, in the order of
// its route, of weight * the slot's row, summed as MoeExperts sums. With `sums` it is handed that
// sum instead, one row for each of its rows: every slot counts once and lies on a grid, so that it
// has the same bits whoever adds what.
struct SlotExchange {
  View in, route, out;
  uint32_t experts = 0;
  uint32_t top_k = 0;
  bool sums = false;
  SumGrid grid;  // of every slot, where sums are wanted
};

using Op = std::variant<Embed, RmsNorm, LayerNorm, MatMul, Add, Scale, Softcap, QkNormRope,
                        Attention, GatedActivation, MoeRoute, MoeExperts, Exchange, SlotExchange,
                        Gate, CausalConv, DeltaRule, SsmScan>;

struct Program {
  uint32_t layer_index = 0;
  std::vector<Buffer> buffers;
  std::vector<Weight> weights;
  std::vector<Op> ops;
  std::optional<BufferId> input;  // receives the residual stream; none for the embedding
  BufferId output = 0;            // the residual stream, or the logits of the output head
};

// The Attention of a layer that has one, else nullptr.
const Attention* FindAttention(const Program& program);

// "MatMul", "Attention", ...: for messages.
std::string_view OpName(const Op& op);

}  // namespace weft::program
