#include "convert/source/gguf_source.h"

#include "convert/source/gguf.h"
#include "convert/source/gguf_config.h"
#include "convert/source/gguf_tensors.h"
#include "convert/source/gguf_text.h"

namespace weft::convert {

Result<Source> OpenGgufSource(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const GgufModel model, OpenGguf(path));
  Source source;
  source.name = GgufStem(path);
  ASSIGN_OR_RETURN(boost::json::object config, HuggingFaceConfig(model));
  const std::string model_type(config.at("model_type").as_string());
  const uint64_t head_columns = config.at("head_dim").to_number<uint64_t>();
  ASSIGN_OR_RETURN(source.tensors, HuggingFaceTensors(model, model_type, head_columns));
  TRY(AddGgufText(model.metadata, &source));
  ASSIGN_OR_RETURN(const std::string architecture, model.metadata.Text("general.architecture"));
  ASSIGN_OR_RETURN(const uint64_t pooling,
                   model.metadata.Whole(architecture + ".pooling_type", 0, 100, 0));
  if (pooling > 0) config["gguf_pooling_type"] = pooling;
  source.files["config.json"] = boost::json::serialize(config);
  return source;
}

}  // namespace weft::convert
