// What the metadata of these architectures has beyond Llama's, as the keys of config.json.
#pragma once

#include "convert/source/gguf_config_writer.h"

namespace weft::convert {

Status AddCohere2(ConfigWriter* config);
Status AddErnie45(ConfigWriter* config);
Status AddExaone4(ConfigWriter* config);
Status AddGlm4(ConfigWriter* config);
Status AddGranite(ConfigWriter* config);
Status AddHunyuan(ConfigWriter* config);
Status AddMistral3(ConfigWriter* config);
Status AddOlmo2(ConfigWriter* config);
Status AddSeedOss(ConfigWriter* config);
Status AddSmolLm3(ConfigWriter* config);

// Layers with attention between layers of short convolutions (LFM2) or of Mamba2 (Granite 4 H,
// Nemotron-H).
Status AddLfm2(ConfigWriter* config);
Status AddLfm2Moe(ConfigWriter* config);
Status AddGraniteHybrid(ConfigWriter* config);
Status AddNemotronH(ConfigWriter* config);

}  // namespace weft::convert
