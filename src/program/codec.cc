// Between program.proto and ir.h. Operations are read and written by code that is made from
// ops.json; the meaning is checked by Validate (validate.cc).
#include "program/codec.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "program/op_codec.gen.h"

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

// ---- reading

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
    const std::optional<Op> read = TakeAnyOp(op);
    if (!read) return Invalid("An operation of the program is of no kind that this weft knows.");
    if (const uint32_t needed = VersionOf(*read); in.version() < needed) {
      return Invalid("A route to parts of experts in a program of version " +
                     std::to_string(in.version()) + "; these begin with version " +
                     std::to_string(needed) + ".");
    }
    program.ops.push_back(*read);
  }
  if (in.has_input()) program.input = in.input();
  program.output = in.output();
  return program;
}

}  // namespace

uint32_t VersionOf(DType dtype) {
  return IsSuperblockFormat(dtype) ? 2 : kOldestProgramVersion;
}

uint32_t VersionOf(const Op& op) {
  const auto* route = std::get_if<MoeRoute>(&op);
  return route != nullptr && route->parts > 1 ? 3 : kOldestProgramVersion;
}

uint32_t VersionOf(const Program& program) {
  uint32_t version = kOldestProgramVersion;
  for (const Weight& weight : program.weights) version = std::max(version, VersionOf(weight.dtype));
  for (const Op& op : program.ops) version = std::max(version, VersionOf(op));
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
  for (const Op& op : program.ops) {
    pb::Op* message = out.add_ops();
    std::visit([&](const auto& any) { PutOp(any, message); }, op);
  }
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
