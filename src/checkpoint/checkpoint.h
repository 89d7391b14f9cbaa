// Checkpoints of a run: directories `step-%08d` that are complete and verifiable, or nothing
// (DESIGN §2).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/tensor.h"
#include "checkpoint/manifest.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/safetensors.h"
#include "model/parameters.h"

namespace athanor::checkpoint {

class TemporaryDirectory;

/// Elements [begin, begin + data.numel()) of a flattened global tensor, to be saved under its
/// Hugging Face name (weights, balancing biases) or `optimizer.<kind>.<name>`. A rank gives at most
/// one slice of a tensor.
struct TensorSlice {
  std::string name;
  std::vector<int64_t> global_shape;
  int64_t begin = 0;
  Tensor data;  ///< contiguous; its dtype is the stored one, so that a resume is by bit
};

/// What a checkpoint says beside its tensors; see Manifest for the fields. The three JSON texts may
/// be empty (null).
struct CheckpointInfo {
  int64_t step = 0;
  std::string config;
  std::string data_cursor;
  std::string random_state;
  std::string state;
  DType dtype = DType::kF32;  ///< of the weights, for config.json
};

/// Gives the bytes of the i-th tensor of a list to `write`, in order and in as many pieces as is convenient.
using TensorBytes = std::function<void(
    size_t tensor, const std::function<void(const void* data, size_t bytes)>& write)>;

/// What one rank wrote, as text that may be gathered from rank to rank.
using RankRecord = std::string;

/// A save in progress under `folder`/step-%08d.tmp. Until commit() returns, no checkpoint of that
/// step is seen (an older one of the same step stays); destroyed before that, it removes what it
/// wrote. A full disk is kResources.
class CheckpointWriter {
 public:
  /// Makes the temporary directory, removing one that a crash left.
  CheckpointWriter(const fs::path& folder, int64_t step);
  /// A checkpoint that will be `target` itself, written in `temporary` beside it; commit() replaces nothing there.
  CheckpointWriter(fs::path target, const fs::path& temporary, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Where the ranks' files go.
  const fs::path& temporary() const;
  /// Writes config.json of the model, the side files, then the manifest, and renames. `records` are
  /// those of ranks 0…n−1. Returns the checkpoint's path.
  fs::path commit(const CheckpointInfo& info, const model::ModelConfig& config,
                  std::span<const RankRecord> records, std::span<const SideFile> side_files);

 private:
  fs::path target_;
  int64_t step_;
  bool replaces_ = false;
  std::unique_ptr<TemporaryDirectory> temporary_;
};

/// Writes rank-%05d.safetensors durably into `temporary`, a CheckpointWriter's, from any process.
RankRecord write_rank(const fs::path& temporary, int rank, std::span<const TensorSlice> slices);
/// The same for whole tensors that need not be in memory; they must have elements.
RankRecord write_rank(const fs::path& temporary, int rank, std::span<const TensorLayout> tensors,
                      const TensorBytes& bytes);

/// Saves a world of one rank.
fs::path save_checkpoint(const fs::path& folder, const CheckpointInfo& info,
                         const model::ModelConfig& config, std::span<const TensorSlice> slices,
                         std::span<const SideFile> side_files);

/// The slices of a model's balancing biases.
std::vector<TensorSlice> bias_slices(const model::Parameters& parameters);
/// The same of its weights and balancing biases.
std::vector<TensorSlice> slices_of(const model::Parameters& parameters);

/// A checkpoint open for reading, by one thread at a time. Errors are kData and name file and
/// tensor.
class Checkpoint {
 public:
  /// Reads and verifies the manifest; every listed file must be there with its size.
  static Checkpoint open(const fs::path& directory);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const fs::path& path() const;
  const Manifest& manifest() const;
  int64_t step() const { return manifest().step; }
  /// The model's geometry (config.json, verified).
  model::ModelConfig config() const;
  /// What goes along with the weights, verified: every side file but config.json.
  std::vector<SideFile> side_files() const;

  /// Proves every byte of every file.
  void verify() const;

  /// Reads elements [begin, begin + into.numel()) of a flattened tensor into `into` (contiguous; of the stored dtype, or of
  /// another real one where that is real). The checksum of every slice touched is verified, once per open checkpoint.
  void read(std::string_view name, int64_t begin, const Tensor& into) const;
  /// Refuses (kData) unless the weights and balancing biases are those of a model of this geometry, listing both the tensors
  /// that are missing and those that are too many, or naming one of another shape.
  void require_tensors_of(const model::ModelConfig& config) const;
  /// All weights and balancing biases; raises the parameters' version. kData as require_tensors_of, and for a weight that is
  /// no number.
  void load(model::Parameters& parameters) const;

 private:
  Checkpoint();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct DamagedCheckpoint {
  fs::path path;
  std::string reason;
};
struct LatestCheckpoint {
  std::optional<Checkpoint> checkpoint;    ///< the newest that verifies; none when there is none
  std::vector<DamagedCheckpoint> damaged;  ///< newer ones that do not, newest first
};
/// Looks through `folder` (a run's checkpoints/), newest step first, and verifies every byte of
/// what it returns.
LatestCheckpoint latest_valid(const fs::path& folder);

/// Removes temporaries that a crash left and all checkpoints but the newest `keep` (at least 1)
/// complete ones. Returns the steps removed.
std::vector<int64_t> prune(const fs::path& folder, int keep);

/// Renames checkpoints of steps past `step`, whole or not, to `abandoned-step-…`, so that they are never
/// resumed. Returns their number.
int64_t abandon(const fs::path& folder, int64_t step);

/// "step-00000012".
std::string checkpoint_name(int64_t step);
/// True for a directory that holds a manifest.
bool is_checkpoint(const fs::path& path);

/// `checkpoint inspect --json`: one object (step, ranks, parameters, tensors with shapes and
/// slices, files, state).
std::string inspect_json(const Manifest& manifest);

}  // namespace athanor::checkpoint
