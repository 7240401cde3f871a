// Arithmetic on the numbers of a traced value, and the names of pointwise functions. Results of
// float types are rounded to float32, as a runtime's are; float16 is computed as float32.
#pragma once

#include <functional>
#include <optional>

#include "lower/trace/value.h"
#include "onnx/broadcast.h"

namespace weft::lower::trace {

// The function that an operator applies to every element; nullptr for other operators.
std::function<double(double)> UnaryFunction(const onnx::Node& node);
// The same for operators of two operands; `integers` chooses the division that truncates.
std::function<double(double, double)> BinaryFunction(const onnx::Node& node, bool integers);
// True for operators whose result is a bool.
bool IsComparison(const onnx::Node& node);

double RoundTo(onnx::ElementType type, double value);

// Gives nullopt when the shapes do not broadcast, or to too many elements.
std::optional<Dims> BroadcastDims(const Dims& a, const Dims& b);
using onnx::BroadcastIndex;

// Operators on known numbers that neither move elements nor work on each alone: Range, CumSum,
// Trilu, ConstantOfShape, MatMul, reductions, Where. nullopt when it is none of these or the
// operands do not fit.
std::optional<Value> EvaluateNumbers(const onnx::Node& node, const std::vector<ValuePtr>& inputs);

}  // namespace weft::lower::trace
