// Predictors of neuron groups from outside: never a crash, and what is accepted can be used.
#include "package/group_predictor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  const auto predictor = weft::package::DecodePredictor({data, byte_count});
  if (!predictor.ok()) return 0;
  const std::vector<float> row(predictor->columns, 0.5f);
  CHECK(predictor->Predict(row).size() == predictor->groups);
  return 0;
}
