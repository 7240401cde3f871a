// Recurrent kernels against a form in double precision that looks at the whole past instead of a
// state, and their promise: bits depend on neither the cut of the rows nor on the neighbours.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "kernels/kernel_set.h"
#include "kernels/test_case.h"

namespace weft::kernels {
namespace {

using Floats = std::vector<float>;

ConstRows In(const Floats& values, size_t columns, size_t first, size_t count) {
  return {values.data() + first * columns, count, columns, columns};
}

double Silu(double x) {
  return x / (1 + std::exp(-x));
}
double SoftplusOf(double x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

void ExpectNear(const Floats& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::fabs(got[i] - expected[i]), tolerance * std::max(1.0, std::fabs(expected[i])))
        << "element " << i << " is " << got[i] << ", expected " << expected[i];
  }
}

// An operation with its inputs for kPositions positions of one session.
class RecurrentOp {
 public:
  virtual ~RecurrentOp() = default;
  virtual size_t state_floats() const = 0;
  virtual size_t out_columns() const = 0;
  // Rows [first, first + count) of the session, with its state.
  virtual void Run(const KernelSet& kernels, Workspace& workspace, size_t first, size_t count,
                   const float* before, float* after, float* out) const = 0;
  virtual std::vector<double> Naive() const = 0;
};

constexpr size_t kPositions = 11;

struct Conv final : RecurrentOp {
  size_t columns, taps;
  bool silu;
  Floats in, weight, bias;
  Conv(size_t columns_, size_t taps_, bool silu_, bool has_bias)
      : columns(columns_),
        taps(taps_),
        silu(silu_),
        in(CaseFloats(1, kPositions * columns, 2)),
        weight(CaseFloats(2, columns * taps)),
        bias(has_bias ? CaseFloats(3, columns) : Floats()) {}
  size_t state_floats() const override { return (taps - 1) * columns; }
  size_t out_columns() const override { return columns; }
  void Run(const KernelSet& kernels, Workspace& workspace, size_t first, size_t count,
           const float* before, float* after, float* out) const override {
    const StateRun run = {0, count, before, after};
    kernels.causal_conv({In(in, columns, first, count),
                         weight,
                         bias,
                         silu,
                         {&run, 1},
                         {out, count, columns, columns}},
                        workspace);
  }
  std::vector<double> Naive() const override {
    std::vector<double> out;
    for (size_t t = 0; t < kPositions; ++t) {
      for (size_t c = 0; c < columns; ++c) {
        double sum = bias.empty() ? 0 : bias[c];
        for (size_t back = 0; back < taps && back <= t; ++back) {
          sum += double{weight[c * taps + taps - 1 - back]} * in[(t - back) * columns + c];
        }
        out.push_back(silu ? Silu(sum) : sum);
      }
    }
    return out;
  }
};

struct Delta final : RecurrentOp {
  size_t key_heads, value_heads, keys, values;
  bool tiled;
  Floats q, k, v, a, b, decay, dt_bias;
  Delta(size_t key_heads_, size_t value_heads_, size_t keys_, size_t values_, bool tiled_)
      : key_heads(key_heads_),
        value_heads(value_heads_),
        keys(keys_),
        values(values_),
        tiled(tiled_),
        q(CaseFloats(1, kPositions * key_heads * keys)),
        k(CaseFloats(2, kPositions * key_heads * keys)),
        v(CaseFloats(3, kPositions * value_heads * values, 3)),
        a(CaseFloats(4, kPositions * value_heads, 4)),
        b(CaseFloats(5, kPositions * value_heads, 4)),
        decay(CaseFloats(6, value_heads, 0.5, -0.6)),
        dt_bias(CaseFloats(7, value_heads)) {}
  size_t state_floats() const override { return value_heads * keys * values; }
  size_t out_columns() const override { return value_heads * values; }
  void Run(const KernelSet& kernels, Workspace& workspace, size_t first, size_t count,
           const float* before, float* after, float* out) const override {
    const StateRun run = {0, count, before, after};
    DeltaRuleArgs args;
    args.q = In(q, key_heads * keys, first, count);
    args.k = In(k, key_heads * keys, first, count);
    args.v = In(v, value_heads * values, first, count);
    args.a = In(a, value_heads, first, count);
    args.b = In(b, value_heads, first, count);
    args.key_heads = key_heads;
    args.value_heads = value_heads;
    args.decay = decay;
    args.dt_bias = dt_bias;
    args.tiled = tiled;
    args.runs = {&run, 1};
    args.out = {out, count, out_columns(), out_columns()};
    kernels.delta_rule(args, workspace);
  }
  std::vector<double> Unit(const Floats& x, size_t t, size_t head, double scale) const {
    std::vector<double> unit(keys);
    double squares = 1e-6;
    for (size_t i = 0; i < keys; ++i) {
      unit[i] = x[(t * key_heads + head) * keys + i];
      squares += unit[i] * unit[i];
    }
    for (double& value : unit) value *= scale / std::sqrt(squares);
    return unit;
  }
  // Without a state: what position s wrote, w_s, is read at t times the decay between them.
  //   r_t = sum over s < t of D(s, t) (k_s . k_t) w_s,   w_t = beta_t (v_t - r_t),
  //   out_t = sum over s <= t of D(s, t) (k_s . q_t) w_s.
  std::vector<double> Naive() const override {
    std::vector<double> out(kPositions * value_heads * values);
    for (size_t head = 0; head < value_heads; ++head) {
      const size_t key_head = tiled ? head % key_heads : head * key_heads / value_heads;
      std::vector<std::vector<double>> written, unit_keys;
      std::vector<double> log_decay;
      for (size_t t = 0; t < kPositions; ++t) {
        const auto key = Unit(k, t, key_head, 1);
        const auto query = Unit(q, t, key_head, 1 / std::sqrt(static_cast<double>(keys)));
        const size_t at = t * value_heads + head;
        log_decay.push_back(decay[head] * SoftplusOf(double{a[at]} + dt_bias[head]));
        const double beta = 1 / (1 + std::exp(-double{b[at]}));
        const auto read = [&](const std::vector<double>& by) {
          std::vector<double> sum(values);
          for (size_t s = 0; s < written.size(); ++s) {
            double factor = 0;
            for (size_t i = 0; i < keys; ++i) factor += unit_keys[s][i] * by[i];
            for (size_t u = s + 1; u <= t; ++u) factor *= std::exp(log_decay[u]);
            for (size_t j = 0; j < values; ++j) sum[j] += factor * written[s][j];
          }
          return sum;
        };
        std::vector<double> write = read(key);
        for (size_t j = 0; j < values; ++j) {
          write[j] = beta * (v[at * values + j] - write[j]);
        }
        written.push_back(write);
        unit_keys.push_back(key);
        const std::vector<double> row = read(query);
        std::copy(row.begin(), row.end(), out.begin() + static_cast<ptrdiff_t>(at * values));
      }
    }
    return out;
  }
};

struct Scan final : RecurrentOp {
  size_t heads, columns, groups, states;
  float dt_min, dt_max;
  Floats x, b, c, dt, decay, dt_bias, skip;
  Scan(size_t heads_, size_t columns_, size_t groups_, size_t states_, float least, float most)
      : heads(heads_),
        columns(columns_),
        groups(groups_),
        states(states_),
        dt_min(least),
        dt_max(most),
        x(CaseFloats(1, kPositions * heads * columns, 2)),
        b(CaseFloats(2, kPositions * groups * states)),
        c(CaseFloats(3, kPositions * groups * states)),
        dt(CaseFloats(4, kPositions * heads, 4)),
        decay(CaseFloats(5, heads, 0.5, -0.6)),
        dt_bias(CaseFloats(6, heads)),
        skip(CaseFloats(7, heads)) {}
  size_t state_floats() const override { return heads * states * columns; }
  size_t out_columns() const override { return heads * columns; }
  void Run(const KernelSet& kernels, Workspace& workspace, size_t first, size_t count,
           const float* before, float* after, float* out) const override {
    const StateRun run = {0, count, before, after};
    SsmScanArgs args;
    args.x = In(x, heads * columns, first, count);
    args.b = In(b, groups * states, first, count);
    args.c = In(c, groups * states, first, count);
    args.dt = In(dt, heads, first, count);
    args.heads = heads;
    args.groups = groups;
    args.decay = decay;
    args.dt_bias = dt_bias;
    args.skip = skip;
    args.dt_min = dt_min;
    args.dt_max = dt_max;
    args.runs = {&run, 1};
    args.out = {out, count, out_columns(), out_columns()};
    kernels.ssm_scan(args, workspace);
  }
  double Step(size_t t, size_t head) const {
    const double step = SoftplusOf(double{dt[t * heads + head]} + dt_bias[head]);
    const double least = std::max(step, double{dt_min});
    return dt_max > 0 ? std::min(least, double{dt_max}) : least;
  }
  // The attention form: out_t = skip x_t + sum over s <= t of D(s, t) dt_s (b_s . c_t) x_s.
  std::vector<double> Naive() const override {
    std::vector<double> out(kPositions * heads * columns);
    for (size_t head = 0; head < heads; ++head) {
      const size_t group = head * groups / heads;
      for (size_t t = 0; t < kPositions; ++t) {
        for (size_t s = 0; s <= t; ++s) {
          double factor = Step(s, head), product = 0;
          for (size_t u = s + 1; u <= t; ++u) factor *= std::exp(decay[head] * Step(u, head));
          for (size_t n = 0; n < states; ++n) {
            product +=
                double{b[(s * groups + group) * states + n]} * c[(t * groups + group) * states + n];
          }
          factor = factor * product + (s == t ? skip[head] : 0);
          for (size_t i = 0; i < columns; ++i) {
            out[(t * heads + head) * columns + i] += factor * x[(s * heads + head) * columns + i];
          }
        }
      }
    }
    return out;
  }
};

std::vector<std::unique_ptr<RecurrentOp>> RecurrentOps() {
  std::vector<std::unique_ptr<RecurrentOp>> all;
  all.push_back(std::make_unique<Conv>(37, 4, true, false));
  all.push_back(std::make_unique<Conv>(300, 3, false, true));
  all.push_back(std::make_unique<Conv>(16, 2, true, true));
  all.push_back(std::make_unique<Conv>(5, 8, true, true));
  all.push_back(std::make_unique<Delta>(2, 4, 16, 16, false));
  all.push_back(std::make_unique<Delta>(2, 6, 33, 17, true));
  all.push_back(std::make_unique<Delta>(3, 3, 8, 40, false));
  all.push_back(std::make_unique<Delta>(1, 4, 128, 128, false));
  all.push_back(std::make_unique<Scan>(4, 16, 2, 16, 0.0f, 0.0f));
  all.push_back(std::make_unique<Scan>(6, 21, 3, 37, 0.5f, 1.5f));
  return all;
}

// The session's rows cut in front of `cuts`.
Floats RunCut(const RecurrentOp& op, const KernelSet& kernels, std::vector<size_t> cuts,
              bool in_place) {
  Workspace workspace(2);
  Floats out(kPositions * op.out_columns(), NAN), state(op.state_floats(), NAN), next = state;
  cuts.push_back(kPositions);
  size_t first = 0;
  for (const size_t end : cuts) {
    float* after = in_place ? state.data() : next.data();
    op.Run(kernels, workspace, first, end - first, first == 0 ? nullptr : state.data(), after,
           out.data() + first * op.out_columns());
    if (!in_place) std::swap(state, next);
    first = end;
  }
  return out;
}

TEST(Recurrent, KernelsGiveWhatAFormWithoutStateGives) {
  for (const auto& op : RecurrentOps()) {
    const std::vector<double> expected = op->Naive();
    ExpectNear(RunCut(*op, ReferenceKernels(), {}, false), expected, 2e-6);
    ExpectNear(RunCut(*op, FastKernels(), {}, false), expected, 2e-5);
  }
}

TEST(Recurrent, BitsDoNotDependOnTheCutOfTheRows) {
  for (const auto& op : RecurrentOps()) {
    for (const KernelSet* kernels : {&ReferenceKernels(), &FastKernels()}) {
      const Floats whole = RunCut(*op, *kernels, {}, false);
      EXPECT_EQ(RunCut(*op, *kernels, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, false), whole);
      EXPECT_EQ(RunCut(*op, *kernels, {1, 2, 7}, true), whole);
      EXPECT_EQ(RunCut(*op, *kernels, {5}, true), whole);
    }
  }
}

// Two sessions in one batch: the second has the first one's rows 3 to 6 and its state there.
TEST(Recurrent, RunsOfABatchDoNotMix) {
  const Conv op(37, 4, true, true);
  Workspace workspace(2);
  for (const KernelSet* kernels : {&ReferenceKernels(), &FastKernels()}) {
    const Floats whole = RunCut(op, *kernels, {}, false);
    Floats at_three(op.state_floats()), ends[2] = {at_three, at_three}, out(7 * 37, NAN);
    op.Run(*kernels, workspace, 0, 3, nullptr, at_three.data(), out.data());
    Floats rows(op.in.begin(), op.in.begin() + 3 * 37);
    rows.insert(rows.end(), op.in.begin() + 3 * 37, op.in.begin() + 7 * 37);
    const StateRun runs[] = {{0, 3, nullptr, ends[0].data()},
                             {3, 4, at_three.data(), ends[1].data()}};
    kernels->causal_conv(
        {In(rows, 37, 0, 7), op.weight, op.bias, true, runs, {out.data(), 7, 37, 37}}, workspace);
    EXPECT_EQ(out, Floats(whole.begin(), whole.begin() + 7 * 37));
    EXPECT_EQ(ends[0], at_three);
  }
}

TEST(Recurrent, GatesMultiplyByWhatTheyName) {
  Workspace workspace(2);
  const Floats in = CaseFloats(1, 3 * 41, 3), gate = CaseFloats(2, 3 * 41, 9);
  for (const KernelSet* kernels : {&ReferenceKernels(), &FastKernels()}) {
    for (const GateKind kind : {GateKind::kIdentity, GateKind::kSigmoid, GateKind::kSilu}) {
      for (const size_t gate_columns : {size_t{41}, size_t{1}}) {
        Floats out(3 * 41, NAN);
        kernels->gate(
            {In(in, 41, 0, 3), In(gate, gate_columns, 0, 3), kind, {out.data(), 3, 41, 41}},
            workspace);
        std::vector<double> expected;
        for (size_t i = 0; i < in.size(); ++i) {
          const double g = gate[gate_columns == 1 ? i / 41 : i];
          const double factor = kind == GateKind::kIdentity  ? g
                                : kind == GateKind::kSigmoid ? 1 / (1 + std::exp(-g))
                                                             : Silu(g);
          expected.push_back(in[i] * factor);
        }
        ExpectNear(out, expected, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace weft::kernels
