// config.json from outside: never a crash, and what is accepted can be planned without running out
// of memory.
#include "convert/model/parse_config.h"
#include "convert/weights/weight_specs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  const auto config = weft::convert::ParseModelConfig(weft::AsText({data, byte_count}));
  if (!config.ok()) return 0;
  CHECK(config->heads % config->kv_heads == 0);
  for (const auto& rope : config->Rotations()) {
    CHECK(weft::convert::InverseFrequencies(rope).size() == rope.rotary_columns / 2);
  }
  for (const auto& layer : config->layers) {
    CHECK(config->heads % layer.kv_heads == 0 && layer.head_columns > 0);
  }
  CHECK(weft::convert::SpecifyWeights(*config, {}).size() == config->layers.size() + 2);
  return 0;
}
