#include "eval/probe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/open_model.h"
#include "checkpoint/safetensors.h"
#include "eval/probe_batch.h"
#include "model/model.h"

namespace athanor::eval {
namespace {

using checkpoint::NamedTensor;

// The memory of one pass forward and, where asked for, one back. Made twice: planning, then for real.
struct Machine {
  Arena values{"parameters"};
  Arena weights{"packed weights"};
  Arena gradients{"gradients"};
  Arena activations{"activations"};
  Arena scratch{"scratch"};
  std::unique_ptr<model::Parameters> parameters;
  std::unique_ptr<model::Model> model;

  void lay_out(const model::ModelConfig& config, const ProbeOptions& options, int64_t longest) {
    parameters = std::make_unique<model::Parameters>(config, options.precision, values);
    if (options.gradients) {
      parameters->set_gradients(
          gradients.tensor(ops::real_dtype(options.precision), {parameters->numel()}));
    }
    model = std::make_unique<model::Model>(
        *parameters, weights,
        model::ModelOptions{
            .training = options.gradients.has_value(), .recompute = {}, .rope_positions = longest});
  }
  void reserve(const Machine& planned) {
    require_memory("probe", planned.values.peak() + planned.weights.peak() +
                                planned.gradients.peak() + planned.activations.peak() +
                                planned.scratch.peak());
    values.reserve(planned.values.peak());
    weights.reserve(planned.weights.peak());
    gradients.reserve(planned.gradients.peak());
    activations.reserve(planned.activations.peak());
    scratch.reserve(planned.scratch.peak());
  }
};

// What will be written, spread from the real tokens to all B·T places.
class Outputs {
 public:
  explicit Outputs(const ProbeBatch& batch) : batch_(batch) {}

  /// `value` [tokens, …], observed.
  void add(std::string_view name, const Tensor& value) {
    std::vector<int64_t> shape{batch_.rows, batch_.length};
    int64_t width = 1;
    for (int i = 1; i < value.rank(); ++i) {
      shape.push_back(value.dim(i));
      width *= value.dim(i);
    }
    if (value.dtype() == DType::kI32) {
      spread(name, shape, value, width,
             integers_.emplace_back(batch_.rows * batch_.length * width, -1), DType::kI64);
    } else {
      std::vector<float>& into = reals_.emplace_back(batch_.rows * batch_.length * width, 0.0f);
      spread(name, shape, value, width, into, DType::kF32);
      require_finite(name, into);
    }
  }
  void add_loss(double loss) {
    std::vector<float>& into = reals_.emplace_back(1, static_cast<float>(loss));
    require_finite("loss", into);
    tensors_.push_back({"loss", {1}, Tensor::of(into.data(), {1})});
  }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

 private:
  template <class T>
  void spread(std::string_view name, const std::vector<int64_t>& shape, const Tensor& value,
              int64_t width, std::vector<T>& into, DType type) {
    const size_t row_bytes = static_cast<size_t>(value.row_stride()) * size_of(value.dtype());
    const int64_t rows_a_token = value.rank() == 1 ? 1 : width / value.cols();
    for (size_t t = 0; t < batch_.places.size(); ++t) {
      const std::byte* from =
          value.rank() == 1 ? value.data() + t * size_of(value.dtype())
                            : value.data() + t * static_cast<size_t>(rows_a_token) * row_bytes;
      for (int64_t r = 0; r < rows_a_token; ++r) {
        const int64_t count = width / rows_a_token;
        checkpoint::convert_elements(from + static_cast<size_t>(r) * row_bytes, value.dtype(),
                                     into.data() + batch_.places[t] * width + r * count, type,
                                     count);
      }
    }
    tensors_.push_back(
        {std::string(name), shape, Tensor(into.data(), type, {static_cast<int64_t>(into.size())})});
  }
  static void require_finite(std::string_view name, const std::vector<float>& values) {
    if (std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) return;
    throw numbers_error(fmt::format("{} is not finite: the weights or the batch overflow", name));
  }

  const ProbeBatch& batch_;
  std::vector<NamedTensor> tensors_;
  std::vector<std::vector<float>> reals_;  // moved when they grow; their elements stay
  std::vector<std::vector<int64_t>> integers_;
};

void require_writable(const fs::path& path) {
  fs::path folder = path.parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder)) {
    throw usage_error(
        fmt::format("{}: its folder {} does not exist", path.string(), folder.string()));
  }
  if (fs::is_directory(path)) throw usage_error(path.string() + " is a directory; name a file");
  if (fs::exists(path) && !fs::is_regular_file(path)) {  // it would be replaced by a file
    throw usage_error(path.string() + " is a device or a pipe; name a file");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    throw usage_error(
        fmt::format("{}: the folder {} is not writable", path.string(), folder.string()));
  }
}

bool same_file(const fs::path& a, const fs::path& b) {
  return fs::weakly_canonical(a) == fs::weakly_canonical(b);
}

void check_paths(const ProbeOptions& options) {
  require_writable(options.out);
  if (same_file(options.out, options.batch)) {
    throw usage_error("--out would replace the batch; name another file");
  }
  if (!options.gradients) return;
  require_writable(*options.gradients);
  if (same_file(*options.gradients, options.batch) || same_file(*options.gradients, options.out)) {
    throw usage_error("--gradients names the file of --batch or --out; name another file");
  }
}

std::vector<NamedTensor> gradient_tensors(const model::Parameters& parameters) {
  std::vector<NamedTensor> tensors;
  for (const model::Parameter& parameter : parameters.all()) {
    const float* values = parameter.gradient.as<float>();
    if (!std::all_of(values, values + parameter.spec.numel(),
                     [](float x) { return std::isfinite(x); })) {
      throw numbers_error(fmt::format("the gradient of {} is not finite", parameter.spec.name));
    }
    tensors.push_back({parameter.spec.name, parameter.spec.shape, parameter.gradient});
  }
  return tensors;
}

}  // namespace

ProbeResult probe(const ProbeOptions& options) {
  check_paths(options);
  const checkpoint::OpenedModel opened = checkpoint::open_model(options.model);
  for (const std::string& warning : opened.warnings) log::warning(warning);
  const ProbeBatch batch = read_probe_batch(options.batch, opened.config.vocab);
  if (options.gradients && batch.targets.empty()) {
    throw usage_error(options.batch.string() +
                      ": --gradients needs targets or labels, and the batch has neither");
  }

  const auto tokens = static_cast<int64_t>(batch.ids.size());
  const model::Batch view{
      Tensor::of(batch.ids.data(), {tokens}),
      batch.targets.empty() ? Tensor{} : Tensor::of(batch.targets.data(), {tokens}), batch.begins};
  Outputs outputs(batch);
  model::Statistics statistics;
  const model::Observer observer = [&](std::string_view name, const Tensor& value) {
    outputs.add(name, value);
  };
  const Threads threads;
  const auto run = [&](Machine& machine) {
    ops::Context ctx(threads, machine.scratch);
    machine.model->refresh(ctx);
    const Tensor no_losses;
    machine.model->forward(ctx, machine.activations, view, no_losses, statistics,
                           /*want_logits=*/true, observer);
    if (!options.gradients) return;
    model::GradientSink sink;
    model::Statistics again;
    machine.model->forward_backward(ctx, machine.activations, view,
                                    1.0 / static_cast<double>(batch.target_count), sink, again);
  };

  Machine planned;
  planned.lay_out(opened.config, options, batch.longest());
  run(planned);
  Machine machine;
  machine.reserve(planned);
  machine.lay_out(opened.config, options, batch.longest());
  opened.load(*machine.parameters);
  statistics = {};
  run(machine);

  ProbeResult result;
  result.tokens = tokens;
  if (!batch.targets.empty()) {
    result.loss = statistics.loss_sum / static_cast<double>(batch.target_count);
    outputs.add_loss(*result.loss);
  }
  result.tensors = static_cast<int64_t>(outputs.tensors().size());
  checkpoint::StagedSafetensors out(options.out, outputs.tensors());
  if (options.gradients) {
    checkpoint::StagedSafetensors gradients(*options.gradients,
                                            gradient_tensors(*machine.parameters));
    gradients.commit();
  }
  out.commit();
  return result;
}

}  // namespace athanor::eval
