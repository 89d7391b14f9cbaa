// The door to a model's weights, wherever they lie and however they are laid out: tensors under their native names, read piece
// by piece.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/tensor.h"
#include "checkpoint/layout.h"
#include "checkpoint/safetensors.h"
#include "model/parameters.h"

namespace athanor::checkpoint {

class Checkpoint;

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// How a tensor is stored; the widest where its parts differ.
  virtual DType dtype(const model::ParameterSpec& spec) const = 0;
  /// Reads elements [begin, begin + into.numel()) of the flattened tensor into `into`: contiguous; F32 or BF16, or F64 for
  /// parameters of that precision. kData naming file and tensor.
  virtual void read(const model::ParameterSpec& spec, int64_t begin, const Tensor& into) const = 0;
  /// Where element `element` lies, for messages: "FILE: tensor NAME".
  virtual std::string place(const model::ParameterSpec& spec, int64_t element) const = 0;
};

/// Parameters in memory, which must outlive this.
class ParameterWeights final : public WeightSource {
 public:
  explicit ParameterWeights(const model::Parameters& parameters);
  DType dtype(const model::ParameterSpec& spec) const override;
  void read(const model::ParameterSpec& spec, int64_t begin, const Tensor& into) const override;
  std::string place(const model::ParameterSpec& spec, int64_t element) const override;

 private:
  Tensor value(const model::ParameterSpec& spec) const;
  const model::Parameters& parameters_;
  std::vector<model::ParameterSpec> buffers_;
};
inline ParameterWeights weights_of(const model::Parameters& parameters) {
  return ParameterWeights(parameters);
}

/// A model directory of either layout: model.safetensors, or the shards that model.safetensors.index.json names. Opening reads
/// every header and proves names, shapes and dtypes (F32 and BF16) against the config: kData listing both the tensors that are
/// missing and those that the config does not call for.
class DirectoryWeights final : public WeightSource {
 public:
  DirectoryWeights(const fs::path& directory, const model::ModelConfig& config, Layout layout);
  DType dtype(const model::ParameterSpec& spec) const override;
  void read(const model::ParameterSpec& spec, int64_t begin, const Tensor& into) const override;
  std::string place(const model::ParameterSpec& spec, int64_t element) const override;

 private:
  /// One stored tensor: elements [begin, end) of a tensor of the model.
  struct Part {
    const SafetensorsFile* file;
    const TensorEntry* entry;
    int64_t begin, end;
  };
  const std::vector<Part>& parts(const model::ParameterSpec& spec) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::vector<Part>, std::less<>> parts_;  ///< by native name, in order
};

/// The weights of a checkpoint, which must outlive this. Opening proves names and shapes as above.
class CheckpointWeights final : public WeightSource {
 public:
  CheckpointWeights(const Checkpoint& checkpoint, const model::ModelConfig& config);
  DType dtype(const model::ParameterSpec& spec) const override;
  void read(const model::ParameterSpec& spec, int64_t begin, const Tensor& into) const override;
  std::string place(const model::ParameterSpec& spec, int64_t element) const override;

 private:
  const Checkpoint& checkpoint_;
};

/// Refuses (kData, `where`) unless both lists are empty, naming the first of each and how many more there are.
void require_none_left(const std::string& where, const std::vector<std::string>& missing,
                       const std::vector<std::string>& unexpected);

/// The dtype in which all of a model's weights fit unchanged: BF16 when every one is stored so, else F32. Balancing biases are
/// left out.
DType common_dtype(const WeightSource& source, const model::ModelConfig& config);

/// Gives elements [begin, begin + count) of a tensor, in order and in pieces, as `dtype` (F32 or BF16). A NaN, an infinity and a
/// value that `dtype` turns into one are refused (kData) with place and element.
void stream(const WeightSource& source, const model::ParameterSpec& spec, int64_t begin,
            int64_t count, DType dtype, const std::function<void(const Tensor& piece)>& use);

/// Fills `parameters` and raises their version; refuses as stream() does.
void load(const WeightSource& source, model::Parameters& parameters);

}  // namespace athanor::checkpoint
