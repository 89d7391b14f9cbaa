#include "checkpoint/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_reading.h"

namespace athanor::checkpoint {
namespace {

constexpr int64_t kPiece = int64_t{1} << 18;  // elements: a piece and its source fit the caches

// "a, b, c and 4 more"
std::string listing(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  }
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

template <class Bits>
int64_t first_not_finite_bits(const Bits* bits, int64_t count, Bits exponent) {
  constexpr int64_t kBlock =
      4096;  // blocks without a branch inside: what is searched is nearly always finite
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    Bits found = 0;
    for (int64_t i = begin; i < end; ++i) found |= (bits[i] & exponent) == exponent;
    if (found == 0) continue;
    for (int64_t i = begin; i < end; ++i) {
      if ((bits[i] & exponent) == exponent) return i;
    }
  }
  return -1;
}

/// The first NaN or infinity of a contiguous tensor; −1 where there is none.
int64_t first_not_finite(const Tensor& values) {
  const int64_t n = values.numel();
  switch (values.dtype()) {
    case DType::kBF16:
      return first_not_finite_bits<uint16_t>(reinterpret_cast<const uint16_t*>(values.data()), n,
                                             0x7f80);
    case DType::kF32:
      return first_not_finite_bits<uint32_t>(reinterpret_cast<const uint32_t*>(values.data()), n,
                                             0x7f800000);
    case DType::kF64:
      return first_not_finite_bits<uint64_t>(reinterpret_cast<const uint64_t*>(values.data()), n,
                                             0x7ff0000000000000);
    default:
      throw bug("weights of a dtype that no weight has");
  }
}

void require_finite(const WeightSource& source, const model::ParameterSpec& spec, int64_t begin,
                    const Tensor& values) {
  const int64_t bad = first_not_finite(values);
  if (bad < 0) return;
  const int64_t element = begin + bad;
  const std::string where = source.place(spec, element);
  float stored = 0;
  source.read(spec, element, Tensor::of(&stored, {1}));
  if (std::isfinite(stored)) {
    throw data_error(fmt::format("{} holds {} (element {} of {}), which bf16 cannot; take fp32",
                                 where, stored, element, spec.name));
  }
  throw data_error(fmt::format("{} holds a NaN or an infinity: element {} of {} is {}", where,
                               element, spec.name, stored));
}

}  // namespace

void require_none_left(const std::string& where, const std::vector<std::string>& missing,
                       const std::vector<std::string>& unexpected) {
  if (missing.empty() && unexpected.empty()) return;
  std::string text = where;
  if (!missing.empty()) {
    text += fmt::format(": {} missing: {}", counted(missing.size(), "tensor"), listing(missing));
  }
  if (!unexpected.empty()) {
    text += fmt::format("{} {} that config.json does not call for: {}", missing.empty() ? ":" : ";",
                        counted(unexpected.size(), "tensor"), listing(unexpected));
  }
  throw data_error(text);
}

DType common_dtype(const WeightSource& source, const model::ModelConfig& config) {
  const std::vector<model::ParameterSpec> specs = model::parameter_specs(config);
  const bool half = std::all_of(specs.begin(), specs.end(), [&](const model::ParameterSpec& spec) {
    return source.dtype(spec) == DType::kBF16;
  });
  return half ? DType::kBF16 : DType::kF32;
}

void stream(const WeightSource& source, const model::ParameterSpec& spec, int64_t begin,
            int64_t count, DType dtype, const std::function<void(const Tensor& piece)>& use) {
  std::vector<float> room(static_cast<size_t>(std::min(kPiece, count)));
  for (int64_t done = 0; done < count;) {
    const int64_t n = std::min(kPiece, count - done);
    const Tensor piece(room.data(), dtype, {n});
    source.read(spec, begin + done, piece);
    require_finite(source, spec, begin + done, piece);
    use(piece);
    done += n;
  }
}

void load(const WeightSource& source, model::Parameters& parameters) {
  const auto fill = [&](const model::ParameterSpec& spec, const Tensor& value) {
    const Tensor flat = value.reshaped({value.numel()});
    source.read(spec, 0, flat);
    require_finite(source, spec, 0, flat);
  };
  for (const model::Parameter& parameter : parameters.all()) fill(parameter.spec, parameter.value);
  const auto buffers = model::buffer_specs(parameters.config());
  for (size_t layer = 0; layer < buffers.size(); ++layer) {
    fill(buffers[layer], parameters.balancing_biases().slice_rows(static_cast<int64_t>(layer), 1));
  }
  parameters.touch();
}

ParameterWeights::ParameterWeights(const model::Parameters& parameters)
    : parameters_(parameters), buffers_(model::buffer_specs(parameters.config())) {}

Tensor ParameterWeights::value(const model::ParameterSpec& spec) const {
  const auto buffer = std::find_if(buffers_.begin(), buffers_.end(),
                                   [&](const auto& own) { return own.name == spec.name; });
  return buffer == buffers_.end() ? parameters_.find(spec.name).value
                                  : parameters_.balancing_biases().slice_rows(
                                        std::distance(buffers_.begin(), buffer), 1);
}

DType ParameterWeights::dtype(const model::ParameterSpec& spec) const {
  return value(spec).dtype();
}

void ParameterWeights::read(const model::ParameterSpec& spec, int64_t begin,
                            const Tensor& into) const {
  const Tensor from = value(spec);
  convert_elements(from.data() + static_cast<size_t>(begin) * size_of(from.dtype()), from.dtype(),
                   into.data(), into.dtype(), into.numel());
}

std::string ParameterWeights::place(const model::ParameterSpec& spec, int64_t /*element*/) const {
  return "the model in memory: tensor " + spec.name;
}

CheckpointWeights::CheckpointWeights(const Checkpoint& checkpoint, const model::ModelConfig& config)
    : checkpoint_(checkpoint) {
  checkpoint_.require_tensors_of(config);
}

DType CheckpointWeights::dtype(const model::ParameterSpec& spec) const {
  return checkpoint_.manifest().find(spec.name)->dtype;
}

void CheckpointWeights::read(const model::ParameterSpec& spec, int64_t begin,
                             const Tensor& into) const {
  checkpoint_.read(spec.name, begin, into);
}

std::string CheckpointWeights::place(const model::ParameterSpec& spec, int64_t /*element*/) const {
  return fmt::format("{}: tensor {}", checkpoint_.path().string(), spec.name);
}

}  // namespace athanor::checkpoint
