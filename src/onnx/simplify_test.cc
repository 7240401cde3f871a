// Constant folding and stripping: expected values are written out by hand from the ONNX operator
// specification.
#include "onnx/simplify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/graph.h"

namespace weft::onnx {
namespace {

using ::testing::ElementsAre;
using Ints = std::vector<int64_t>;

Tensor Vector(const Ints& values) {
  return Tensor::FromInt64s({static_cast<int64_t>(values.size())}, values);
}
Tensor Scalar(int64_t value) {
  return Tensor::FromInt64s({}, {value});
}

class Fold : public ::testing::Test {
 protected:
  // Adds the inputs a, b, c, ... as constants and folds `op`; returns the value, or nullptr if it
  // stayed a node.
  const Tensor* Run(const char* op, const std::vector<Tensor>& inputs,
                    std::vector<Attribute> attributes = {}) {
    graph_ = Graph();
    std::vector<std::string> names;
    for (const Tensor& tensor : inputs) {
      names.push_back(std::string(1, static_cast<char>('a' + names.size())));
      graph_.AddInitializer(names.back(), tensor);
    }
    graph_.AddNode(op, names, {"r"}, std::move(attributes));
    graph_.AddNode("Use", {"r"}, {"y"});
    graph_.AddOutput("y", ElementType::kInt64, {});
    FoldConstants(graph_);
    return graph_.FindInitializer("r");
  }
  Ints Values(const char* op, const std::vector<Tensor>& inputs,
              std::vector<Attribute> attributes = {}) {
    const Tensor* r = Run(op, inputs, std::move(attributes));
    return r == nullptr ? Ints{-999} : *r->AsInt64s();
  }
  Graph graph_;
};

TEST_F(Fold, IntegerArithmeticWithBroadcast) {
  EXPECT_THAT(Values("Add", {Vector({1, 2}), Scalar(10)}), ElementsAre(11, 12));
  EXPECT_THAT(Values("Sub", {Scalar(1), Vector({1, 2})}), ElementsAre(0, -1));
  EXPECT_THAT(Values("Mul", {Vector({3, -4}), Vector({2, 2})}), ElementsAre(6, -8));
  EXPECT_THAT(Values("Div", {Vector({7, -7}), Scalar(2)}), ElementsAre(3, -3));
  const Tensor column = Tensor::FromInt64s({2, 1}, {10, 20});
  EXPECT_THAT(Values("Add", {column, Vector({1, 2, 3})}), ElementsAre(11, 12, 13, 21, 22, 23));
  EXPECT_THAT(graph_.FindInitializer("r")->dims, ElementsAre(2, 3));
}

TEST_F(Fold, WhatIsUndefinedStaysANode) {
  EXPECT_EQ(Run("Div", {Vector({1}), Vector({0})}), nullptr);
  EXPECT_EQ(Run("Add", {Vector({1, 2}), Vector({1, 2, 3})}), nullptr);
  EXPECT_EQ(Run("Gather", {Vector({1, 2}), Scalar(2)}), nullptr);
  EXPECT_EQ(Run("Reshape", {Vector({1, 2}), Vector({-1, -1})}), nullptr);
  EXPECT_EQ(Run("Range", {Scalar(0), Scalar(1 << 30), Scalar(1)}), nullptr);
  EXPECT_EQ(Run("ConstantOfShape", {Vector({-1})}), nullptr);
  EXPECT_EQ(Run("ConstantOfShape", {Vector({1 << 20, 1 << 20})}), nullptr);
  EXPECT_EQ(Run("MatMul", {Vector({1}), Vector({1})}), nullptr);
}

TEST_F(Fold, ShapesAndRearranging) {
  EXPECT_THAT(Values("Shape", {Tensor::FromInt64s({2, 3}, {1, 2, 3, 4, 5, 6})}), ElementsAre(2, 3));
  EXPECT_THAT(Values("Concat", {Vector({1}), Vector({2, 3})}, {Attribute::Of("axis", 0)}),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(Values("Gather", {Vector({5, 6, 7}), Scalar(-1)}), ElementsAre(7));
  EXPECT_TRUE(graph_.FindInitializer("r")->dims.empty());
  EXPECT_THAT(Values("Slice", {Vector({5, 6, 7}), Vector({1}), Vector({INT64_MAX})}),
              ElementsAre(6, 7));
  Run("Unsqueeze", {Vector({4, 5}), Vector({0, -1})});
  EXPECT_THAT(graph_.FindInitializer("r")->dims, ElementsAre(1, 2, 1));
  Run("Squeeze", {Tensor::FromInt64s({1, 2, 1}, {4, 5}), Vector({0})});
  EXPECT_THAT(graph_.FindInitializer("r")->dims, ElementsAre(2, 1));
  Run("Reshape", {Vector({1, 2, 3, 4}), Vector({-1, 2})});
  EXPECT_THAT(graph_.FindInitializer("r")->dims, ElementsAre(2, 2));
  EXPECT_THAT(Values("Range", {Scalar(2), Scalar(5), Scalar(1)}), ElementsAre(2, 3, 4));
  EXPECT_THAT(Values("Expand", {Vector({7}), Vector({2, 2})}), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(Values("ConstantOfShape", {Vector({3})}, {Attribute::Of("value", Vector({6}))}),
              ElementsAre(6, 6, 6));
}

TEST_F(Fold, ChoosingAndCasting) {
  const Tensor* equal = Run("Equal", {Vector({1, 2}), Vector({1, 3})});
  ASSERT_NE(equal, nullptr);
  EXPECT_EQ(equal->type, ElementType::kBool);
  EXPECT_THAT(*equal->AsInt64s(), ElementsAre(1, 0));
  EXPECT_THAT(Values("Where", {*equal, Vector({10, 20}), Scalar(0)}), ElementsAre(10, 0));
  const Tensor* cast = Run("Cast", {Vector({3, -4})}, {Attribute::Of("to", 1)});
  ASSERT_NE(cast, nullptr);
  EXPECT_THAT(*cast->AsFloats(), ElementsAre(3.f, -4.f));
  EXPECT_THAT(Values("Neg", {Vector({3})}), ElementsAre(-3));
}

TEST_F(Fold, ChainsFoldAndGraphOutputsStay) {
  Graph graph;
  graph.AddNode("Constant", {}, {"two"}, {Attribute::Of("value", Scalar(2))});
  graph.AddNode("Constant", {}, {"three"}, {Attribute::Of("value_int", 3)});
  graph.AddNode("Mul", {"two", "three"}, {"six"});
  graph.AddNode("Add", {"six", "x"}, {"y"});
  graph.AddNode("Identity", {"six"}, {"out"});
  graph.AddInput("x", ElementType::kInt64, {});
  graph.AddOutput("y", ElementType::kInt64, {});
  graph.AddOutput("out", ElementType::kInt64, {});
  EXPECT_EQ(FoldConstants(graph), 3);
  ASSERT_EQ(graph.nodes.size(), 2u);
  EXPECT_THAT(*graph.FindInitializer("six")->AsInt64s(), ElementsAre(6));
}

TEST(Strip, RemovesWhatNothingReads) {
  Model model;
  model.opset_imports = {{"", 17}, {"com.microsoft", 1}, {"ai.onnx.ml", 3}};
  Graph& graph = model.graph;
  graph.AddInput("x", ElementType::kFloat, {});
  graph.AddOutput("y", ElementType::kFloat, {});
  graph.AddInitializer("unused", Vector({1}));
  graph.AddInitializer("used", Vector({1}));
  graph.AddNode("Gelu", {"x", "used"}, {"y"}, {}, "com.microsoft");
  graph.AddNode("Neg", {"x"}, {"dead"});
  graph.AddNode("Neg", {"dead"}, {"deader"});
  graph.nodes[0].metadata = {{"namespace", "/model"}};
  graph.value_infos["dead"] = {"dead", ElementType::kFloat, std::nullopt, {}};
  StripModel(model, false);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_TRUE(graph.nodes[0].metadata.empty());
  EXPECT_EQ(graph.initializers.size(), 1u);
  EXPECT_TRUE(graph.value_infos.empty());
  EXPECT_EQ(model.opset_imports.size(), 2u);
}

}  // namespace
}  // namespace weft::onnx
