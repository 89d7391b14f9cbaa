#include "checkpoint/model_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "checkpoint/json_reading.h"

namespace athanor::checkpoint {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kPiece = int64_t{1} << 16;  // elements compared at a time

/// A model's tensors, and the optimizer's state where it has one.
std::vector<model::ParameterSpec> tensors_of(const OpenedModel& model, const OpenedWeights& weights,
                                             bool optimizer) {
  std::vector<model::ParameterSpec> specs;
  for (auto& tensor : model_tensors(model.config)) specs.push_back(std::move(tensor.spec));
  if (!optimizer) return specs;
  for (const StoredTensor& stored : weights.checkpoint()->manifest().tensors) {
    const bool weight = std::any_of(specs.begin(), specs.end(),
                                    [&](const auto& spec) { return spec.name == stored.name; });
    if (!weight) specs.push_back({stored.name, stored.shape, model::ParameterKind::kVector});
  }
  return specs;
}

void compare(const float* a, const float* b, int64_t count, TensorDifference& difference,
             double& squares, double& reference) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = a[i];
    const float y = b[i];
    const bool same = std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
    const bool finite_x = std::isfinite(x);
    const bool finite_y = std::isfinite(y);
    difference.not_finite_a += !finite_x;
    difference.not_finite_b += !finite_y;
    if (!same) {
      ++difference.differing;
      difference.differing_as_bf16 += bfloat16(x).bits != bfloat16(y).bits;
    }
    if (!finite_x || !finite_y) continue;
    const double apart = std::abs(static_cast<double>(x) - static_cast<double>(y));
    difference.largest = std::max(difference.largest, apart);
    squares += apart * apart;
    reference += static_cast<double>(x) * static_cast<double>(x);
  }
}

TensorDifference compare(const model::ParameterSpec& spec, const WeightSource& a,
                         const WeightSource& b) {
  TensorDifference difference;
  difference.name = spec.name;
  difference.dtype_a = a.dtype(spec);
  difference.dtype_b = b.dtype(spec);
  difference.elements = spec.numel();
  std::vector<float> left(kPiece);
  std::vector<float> right(kPiece);
  double squares = 0;
  double reference = 0;
  for (int64_t begin = 0; begin < difference.elements; begin += kPiece) {
    const int64_t count = std::min(kPiece, difference.elements - begin);
    a.read(spec, begin, Tensor::of(left.data(), {count}));
    b.read(spec, begin, Tensor::of(right.data(), {count}));
    compare(left.data(), right.data(), count, difference, squares, reference);
  }
  if (squares > 0) {
    difference.relative =
        reference > 0 ? std::sqrt(squares / reference) : std::numeric_limits<double>::infinity();
  }
  return difference;
}

/// The keys of the native config that differ, "KEY: 1 and 2".
std::vector<std::string> compare_configs(const model::ModelConfig& a, const model::ModelConfig& b) {
  const json left = json::parse(model_config_json(a, DType::kF32)).flatten();
  const json right = json::parse(model_config_json(b, DType::kF32)).flatten();
  std::vector<std::string> keys;
  const auto text = [](const json& object, const std::string& key) {
    return object.contains(key) ? object[key].dump() : std::string("absent");
  };
  json all = left;
  all.update(right);
  for (const auto& [key, value] : all.items()) {
    if (text(left, key) == text(right, key)) continue;
    keys.push_back(fmt::format("{}: {} and {}", key.substr(1), text(left, key), text(right, key)));
  }
  return keys;
}

ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

std::string shape_text(const model::ParameterSpec& spec, DType dtype) {
  return TensorEntry{"", std::string(name_of(dtype)), dtype, spec.shape}.describe();
}

}  // namespace

bool ModelDifference::equal() const {
  return only_a.empty() && only_b.empty() && other_shape.empty() && config.empty() &&
         std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorDifference& tensor) { return tensor.differing == 0; });
}

ModelDifference diff_models(const OpenedModel& a, const OpenedModel& b) {
  const OpenedWeights left(a);
  const OpenedWeights right(b);
  const bool optimizer = left.checkpoint() != nullptr && right.checkpoint() != nullptr;
  const std::vector<model::ParameterSpec> ours = tensors_of(a, left, optimizer);
  std::map<std::string_view, const model::ParameterSpec*> theirs;
  const std::vector<model::ParameterSpec> others = tensors_of(b, right, optimizer);
  for (const model::ParameterSpec& spec : others) theirs[spec.name] = &spec;

  ModelDifference difference;
  difference.config = compare_configs(a.config, b.config);
  for (const model::ParameterSpec& spec : ours) {
    const auto found = theirs.find(spec.name);
    if (found == theirs.end()) {
      difference.only_a.push_back(spec.name);
      continue;
    }
    const model::ParameterSpec& other = *found->second;
    theirs.erase(found);
    if (other.shape != spec.shape) {
      difference.other_shape.push_back(fmt::format("{}: {} and {}", spec.name,
                                                   shape_text(spec, left.source().dtype(spec)),
                                                   shape_text(other, right.source().dtype(other))));
    } else {
      difference.tensors.push_back(compare(spec, left.source(), right.source()));
    }
  }
  for (const model::ParameterSpec& spec : others) {
    if (theirs.contains(spec.name)) difference.only_b.push_back(spec.name);
  }
  return difference;
}

std::string to_text(const ModelDifference& difference) {
  std::string text;
  for (const std::string& key : difference.config) text += "config      " + key + "\n";
  for (const std::string& name : difference.only_a) text += "only in A   " + printable(name) + "\n";
  for (const std::string& name : difference.only_b) text += "only in B   " + printable(name) + "\n";
  for (const std::string& shapes : difference.other_shape) {
    text += "shape       " + printable(shapes) + "\n";
  }
  size_t differing = 0;
  for (const TensorDifference& tensor : difference.tensors) {
    if (tensor.differing > 0) {
      ++differing;
      text += fmt::format("{}: {} of {} elements differ, by {:.3g} at most, {:.3g} relative{}\n",
                          printable(tensor.name), tensor.differing, tensor.elements, tensor.largest,
                          tensor.relative,
                          tensor.differing_as_bf16 == 0 ? "; equal when rounded to bf16" : "");
    }
    if (tensor.not_finite_a + tensor.not_finite_b > 0) {
      text += fmt::format("{}: {} NaNs and infinities in A, {} in B\n", printable(tensor.name),
                          tensor.not_finite_a, tensor.not_finite_b);
    }
  }
  const std::string compared = counted(difference.tensors.size(), "tensor");
  if (difference.equal()) return text + fmt::format("equal: {}, every bit\n", compared);
  return text + fmt::format("{} of {} that both have differ\n", differing, compared);
}

std::string to_json(const ModelDifference& difference) {
  ordered_json different = ordered_json::array();
  for (const TensorDifference& tensor : difference.tensors) {
    if (tensor.differing == 0 && tensor.not_finite_a == 0 && tensor.not_finite_b == 0) continue;
    different.push_back({{"name", tensor.name},
                         {"dtype_a", name_of(tensor.dtype_a)},
                         {"dtype_b", name_of(tensor.dtype_b)},
                         {"elements", tensor.elements},
                         {"differing", tensor.differing},
                         {"differing_as_bf16", tensor.differing_as_bf16},
                         {"not_finite_a", tensor.not_finite_a},
                         {"not_finite_b", tensor.not_finite_b},
                         {"max_abs", number(tensor.largest)},
                         {"relative", number(tensor.relative)}});
  }
  return ordered_json{
      {"equal", difference.equal()},       {"tensors_compared", difference.tensors.size()},
      {"different", std::move(different)}, {"only_in_a", difference.only_a},
      {"only_in_b", difference.only_b},    {"other_shape", difference.other_shape},
      {"config", difference.config}}
      .dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace athanor::checkpoint
