#include "apps/predictor_training.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "tensor/half.h"

namespace weft::apps {
namespace {

constexpr size_t kBatch = 64;
constexpr float kRate = 1e-3f, kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-8f;

// Parameters and what Adam keeps of their gradients g (Kingma and Ba, 2015, algorithm 1):
//   m = b1 m + (1 - b1) g    v = b2 v + (1 - b2) g^2
//   value -= rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
struct Parameters {
  explicit Parameters(size_t count) : value(count), gradient(count), m(count), v(count) {}

  void Step(float rate, uint64_t t) {
    const float first = 1 / (1 - std::pow(kBeta1, static_cast<float>(t)));
    const float second = 1 / (1 - std::pow(kBeta2, static_cast<float>(t)));
    for (size_t i = 0; i < value.size(); ++i) {
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * gradient[i];
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * gradient[i] * gradient[i];
      value[i] -= rate * m[i] * first / (std::sqrt(v[i] * second) + kEpsilon);
      gradient[i] = 0;
    }
  }

  std::vector<float> value, gradient, m, v;
};

// y += a x, by sixteen values, of which compilers make vectors.
void Axpy(float a, const float* x, float* y, size_t count) {
  constexpr size_t kLanes = 16;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) y[i + lane] += a * x[i + lane];
  for (; i < count; ++i) y[i] += a * x[i];
}

// Inputs and norms are divided by their means, so that one rate fits every model; the predictor
// gets the factors back in its matrices. Matrices lie with their outputs side by side.
class Trainer {
 public:
  Trainer(const PredictorRows& rows, const TrainingOptions& options)
      : rows_(rows),
        columns_(rows.columns),
        hidden_(options.hidden),
        groups_(rows.groups),
        epochs_(options.epochs),
        random_(options.seed * 1'000'003 + rows.layer),
        first_(columns_ * hidden_),
        first_bias_(hidden_),
        second_(hidden_ * groups_),
        second_bias_(groups_),
        order_(rows.count()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    FindScales();
    // He's initialisation for what goes through max(0, x). The second matrix begins near 0 and its
    // bias with the mean norms: training begins where the constant order ends.
    const float spread = std::sqrt(6.0f / static_cast<float>(columns_));
    for (float& value : first_.value) value = spread * Symmetric();
    for (float& value : second_.value) value = 0.01f * Symmetric();
    for (size_t i = 0; i < rows.norms.size(); ++i)
      second_bias_.value[i % groups_] +=
          rows.norms[i] / norm_scale_ / static_cast<float>(rows.count());
  }

  void Epoch() {
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.Below(i)]);
    for (size_t begin = 0; begin < order_.size(); begin += kBatch)
      Batch(std::span(order_).subspan(begin, std::min(kBatch, order_.size() - begin)));
  }

  package::GroupPredictor Take() const {
    package::GroupPredictor out{rows_.columns,
                                static_cast<uint32_t>(hidden_),
                                rows_.groups,
                                rows_.reads,
                                {},
                                first_bias_.value,
                                {},
                                {}};
    for (size_t j = 0; j < hidden_; ++j)
      for (size_t i = 0; i < columns_; ++i)
        out.first.push_back(first_.value[i * hidden_ + j] / input_scale_);
    for (size_t group = 0; group < groups_; ++group) {
      for (size_t j = 0; j < hidden_; ++j)
        out.second.push_back(second_.value[j * groups_ + group] * norm_scale_);
      out.second_bias.push_back(second_bias_.value[group] * norm_scale_);
    }
    return out;
  }

 private:
  float Symmetric() { return static_cast<float>(2 * random_.Uniform() - 1); }

  void FindScales() {
    double squares = 0;
    for (const uint16_t value : rows_.inputs) squares += std::pow(double{F16ToF32(value)}, 2);
    const double norms = std::accumulate(rows_.norms.begin(), rows_.norms.end(), 0.0);
    const double input = std::sqrt(squares / static_cast<double>(rows_.inputs.size()));
    const double norm = norms / static_cast<double>(rows_.norms.size());
    if (input > 0) input_scale_ = static_cast<float>(input);
    if (norm > 0) norm_scale_ = static_cast<float>(norm);
  }

  void Batch(std::span<const size_t> rows) {
    Forward(rows);
    Backward(rows);
    // The rate falls to 0 along half a cosine.
    const size_t batches = (order_.size() + kBatch - 1) / kBatch;
    const double done = static_cast<double>(step_) / static_cast<double>(batches * epochs_);
    const auto rate = static_cast<float>(kRate * 0.5 * (1 + std::cos(M_PI * std::min(1.0, done))));
    ++step_;
    for (Parameters* each : {&first_, &first_bias_, &second_, &second_bias_})
      each->Step(rate, step_);
  }

  void Forward(std::span<const size_t> rows) {
    x_.resize(rows.size() * columns_);
    h_.resize(rows.size() * hidden_);
    error_.resize(rows.size() * groups_);
    for (size_t b = 0; b < rows.size(); ++b) {
      for (size_t i = 0; i < columns_; ++i)
        x_[b * columns_ + i] = F16ToF32(rows_.inputs[rows[b] * columns_ + i]) / input_scale_;
      std::copy(first_bias_.value.begin(), first_bias_.value.end(), h_.data() + b * hidden_);
    }
    for (size_t i = 0; i < columns_; ++i)
      for (size_t b = 0; b < rows.size(); ++b)
        Axpy(x_[b * columns_ + i], &first_.value[i * hidden_], &h_[b * hidden_], hidden_);
    for (float& value : h_) value = std::max(0.0f, value);
    for (size_t b = 0; b < rows.size(); ++b) {
      float* error = &error_[b * groups_];
      for (size_t group = 0; group < groups_; ++group)
        error[group] =
            second_bias_.value[group] - rows_.norms[rows[b] * groups_ + group] / norm_scale_;
      for (size_t j = 0; j < hidden_; ++j)
        Axpy(h_[b * hidden_ + j], &second_.value[j * groups_], error, groups_);
    }
  }

  // Of the mean squared error; max(0, x) at the output is the predictor's and is not trained.
  void Backward(std::span<const size_t> rows) {
    const float share = 2 / static_cast<float>(rows.size() * groups_);
    for (float& error : error_) error *= share;
    slope_.assign(rows.size() * hidden_, 0);
    for (size_t b = 0; b < rows.size(); ++b) {
      const float* error = &error_[b * groups_];
      Axpy(1, error, second_bias_.gradient.data(), groups_);
      for (size_t j = 0; j < hidden_; ++j) {
        const float h = h_[b * hidden_ + j];
        if (h <= 0) continue;  // its slope is 0
        Axpy(h, error, &second_.gradient[j * groups_], groups_);
        float sum = 0;
        for (size_t group = 0; group < groups_; ++group)
          sum += error[group] * second_.value[j * groups_ + group];
        slope_[b * hidden_ + j] = sum;
      }
      Axpy(1, &slope_[b * hidden_], first_bias_.gradient.data(), hidden_);
    }
    for (size_t i = 0; i < columns_; ++i)
      for (size_t b = 0; b < rows.size(); ++b)
        Axpy(x_[b * columns_ + i], &slope_[b * hidden_], &first_.gradient[i * hidden_], hidden_);
  }

  const PredictorRows& rows_;
  const size_t columns_, hidden_, groups_, epochs_;
  SeededRandom random_;
  Parameters first_, first_bias_;    // [columns, hidden], [hidden]
  Parameters second_, second_bias_;  // [hidden, groups], [groups]
  std::vector<size_t> order_;
  std::vector<float> x_, h_, error_, slope_;  // of a batch
  float input_scale_ = 1, norm_scale_ = 1;
  uint64_t step_ = 0;
};

// Places of the values by size, equal ones with the mean of theirs.
std::vector<double> Ranks(std::span<const float> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [values](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return ranks;
}

double Correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double mean = static_cast<double>(a.size() - 1) / 2;  // of ranks
  double both = 0, first = 0, second = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    first += (a[i] - mean) * (a[i] - mean);
    second += (b[i] - mean) * (b[i] - mean);
  }
  return first > 0 && second > 0 ? both / std::sqrt(first * second) : 0;
}

// The numbers of the largest values, as many as a quarter and at least one.
std::vector<size_t> TopQuarter(std::span<const float> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [values](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(std::max<size_t>(1, values.size() / 4));
  return order;
}

std::vector<float> PredictAll(const package::GroupPredictor& predictor, const PredictorRows& rows) {
  std::vector<float> predicted, row(rows.columns);
  for (size_t i = 0; i < rows.count(); ++i) {
    for (size_t c = 0; c < row.size(); ++c) row[c] = F16ToF32(rows.inputs[i * row.size() + c]);
    const std::vector<float> norms = predictor.Predict(row);
    predicted.insert(predicted.end(), norms.begin(), norms.end());
  }
  return predicted;
}

std::vector<float> MeanNorms(const PredictorRows& training, size_t count) {
  std::vector<double> sums(training.groups);
  for (size_t i = 0; i < training.norms.size(); ++i) sums[i % sums.size()] += training.norms[i];
  std::vector<float> all;
  for (size_t row = 0; row < count; ++row)
    for (const double sum : sums)
      all.push_back(static_cast<float>(sum / static_cast<double>(training.count())));
  return all;
}

Status CheckRows(std::span<const PredictorRows> training, std::span<const PredictorRows> held_out) {
  for (const auto& [rows, what] : {std::pair(training, "train on"), {held_out, "be measured on"}})
    if (rows.empty() || std::any_of(rows.begin(), rows.end(),
                                    [](const PredictorRows& each) { return each.count() == 0; }))
      return Error(ErrorCode::kInvalidData,
                   "The text has too few tokens: a layer has no row to " + std::string(what) + ".");
  return OkStatus();
}

}  // namespace

void PredictorCollector::Add(const engine::SlotRequest& request, std::span<const float> norms) {
  std::vector<uint16_t> rows;
  rows.reserve(request.in.size());
  for (const float value : request.in)
    rows.push_back(F32ToF16(std::clamp(value, -65504.0f, 65504.0f)));  // what f16 holds
  auto at = std::lower_bound(
      layers_.begin(), layers_.end(), request.layer,
      [](const PredictorRows& each, uint32_t layer) { return each.layer < layer; });
  const bool is_first = at == layers_.begin();
  if (at == layers_.end() || at->layer != request.layer)
    at = layers_.insert(at, {request.layer,
                             is_first ? request.layer : before_layer_,
                             request.columns,
                             request.top_k,
                             {},
                             {}});
  const std::vector<uint16_t>& inputs = is_first ? rows : before_;
  const size_t count = std::min(request.row_count, most_rows_ - at->count());
  if (inputs.size() == rows.size()) {
    at->inputs.insert(at->inputs.end(), inputs.begin(),
                      inputs.begin() + static_cast<ptrdiff_t>(count * request.columns));
    at->norms.insert(at->norms.end(), norms.begin(),
                     norms.begin() + static_cast<ptrdiff_t>(count * request.top_k));
  }
  before_ = std::move(rows);
  before_layer_ = request.layer;
}

bool PredictorCollector::IsFull() const {
  return !layers_.empty() &&
         std::all_of(layers_.begin(), layers_.end(),
                     [this](const PredictorRows& each) { return each.count() == most_rows_; });
}

PredictorQuality QualityOf(std::span<const float> predicted, std::span<const float> actual,
                           uint32_t groups) {
  PredictorQuality sum;
  double errors = 0, squares = 0;
  const size_t rows = actual.size() / groups;
  for (size_t row = 0; row < rows; ++row) {
    const auto guess = predicted.subspan(row * groups, groups);
    const auto came = actual.subspan(row * groups, groups);
    for (size_t i = 0; i < groups; ++i) {
      errors += std::pow(double{guess[i]} - came[i], 2);
      squares += double{came[i]} * came[i];
    }
    sum.ranks += Correlation(Ranks(guess), Ranks(came));
    const std::vector<size_t> top = TopQuarter(came), guessed = TopQuarter(guess);
    const auto found = std::count_if(top.begin(), top.end(), [&guessed](size_t group) {
      return std::find(guessed.begin(), guessed.end(), group) != guessed.end();
    });
    sum.recall += static_cast<double>(found) / static_cast<double>(top.size());
  }
  const auto count = static_cast<double>(rows);
  return {squares > 0 ? errors / squares : 0, sum.ranks / count, sum.recall / count};
}

Result<std::vector<TrainedPredictor>> TrainPredictors(
    std::span<const PredictorRows> training, std::span<const PredictorRows> held_out,
    const TrainingOptions& options, const std::function<void(uint64_t, uint64_t)>& on_epoch) {
  TRY(CheckRows(training, held_out));
  CHECK(training.size() == held_out.size());
  std::vector<TrainedPredictor> trained(training.size());
  std::mutex mutex;
  size_t next = 0;
  uint64_t epochs = 0;
  const auto work = [&] {
    for (;;) {
      std::unique_lock lock(mutex);
      if (next == training.size()) return;
      const size_t i = next++;
      lock.unlock();
      Trainer trainer(training[i], options);
      for (uint32_t epoch = 0; epoch < options.epochs; ++epoch) {
        trainer.Epoch();
        const std::lock_guard told(mutex);
        on_epoch(++epochs, training.size() * options.epochs);
      }
      TrainedPredictor& out = trained[i];
      out.layer = training[i].layer;
      out.blob = package::EncodePredictor(trainer.Take());
      const package::GroupPredictor rounded = package::DecodePredictor(out.blob).value();
      out.predicted =
          QualityOf(PredictAll(rounded, held_out[i]), held_out[i].norms, held_out[i].groups);
      out.constant = QualityOf(MeanNorms(training[i], held_out[i].count()), held_out[i].norms,
                               held_out[i].groups);
    }
  };
  std::vector<std::thread> threads;
  const auto thread_count = std::min<size_t>(options.threads, training.size());
  for (size_t i = 1; i < thread_count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return trained;
}

}  // namespace weft::apps
