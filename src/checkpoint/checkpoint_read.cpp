#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/checksum.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_reading.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"

namespace athanor::checkpoint {
namespace {

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kOptimizerPrefix = "optimizer.";
constexpr size_t kPiece = size_t{1} << 20;  // bytes hashed at a time: fits the second-level cache

}  // namespace

struct Checkpoint::Impl {
  fs::path path;
  Manifest manifest;
  std::map<std::string, SafetensorsFile> rank_files;  ///< opened ones, their headers proved
  std::set<const StoredSlice*> proved;

  const SafetensorsFile& rank_file(const std::string& name);
  void check(const StoredTensor& tensor, const StoredSlice& slice,
             const std::string& checksum) const;
  void prove(const StoredTensor& tensor, const StoredSlice& slice);
  void read_slice(const StoredTensor& tensor, const StoredSlice& slice, int64_t begin,
                  const Tensor& into);
  std::string side_file(const StoredFile& file) const;
};

// A rank file whose header is proved to be the one of the manifest.
const SafetensorsFile& Checkpoint::Impl::rank_file(const std::string& name) {
  const auto opened = rank_files.find(name);
  if (opened != rank_files.end()) return opened->second;

  const StoredFile& stored = *manifest.find_file(name);
  uint64_t data_bytes = 0;
  std::map<std::string_view, std::pair<DType, int64_t>> expected;
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      if (slice.file != name) continue;
      data_bytes += static_cast<uint64_t>(slice.length) * size_of(tensor.dtype);
      expected[tensor.name] = {tensor.dtype, slice.length};
    }
  }
  // The manifest tells how long the header is, so that a damaged length field cannot mislead.
  if (data_bytes > stored.bytes) {
    throw data_error(fmt::format("{}: {} bytes cannot hold the slices that the manifest lists",
                                 (path / name).string(), stored.bytes));
  }
  SafetensorsFile file(path / name, HeaderProof{stored.bytes - data_bytes, stored.checksum});
  bool same = file.entries().size() == expected.size();
  for (const TensorEntry& entry : file.entries()) {
    const auto found = expected.find(entry.name);
    same = same && found != expected.end() && entry.type == found->second.first &&
           entry.shape == std::vector{found->second.second};
  }
  if (!same) {
    throw data_error((path / name).string() +
                     ": its tensors are not those that the manifest lists");
  }
  return rank_files.emplace(name, std::move(file)).first->second;
}

void Checkpoint::Impl::check(const StoredTensor& tensor, const StoredSlice& slice,
                             const std::string& checksum) const {
  if (checksum == slice.checksum) return;
  throw data_error(fmt::format("{}: tensor {} (elements {} to {}) does not match its checksum",
                               (path / slice.file).string(), printable(tensor.name), slice.offset,
                               slice.offset + slice.length));
}

void Checkpoint::Impl::prove(const StoredTensor& tensor, const StoredSlice& slice) {
  const SafetensorsFile& file = rank_file(slice.file);
  if (proved.contains(&slice)) return;
  const TensorEntry& entry = file.at(tensor.name);
  std::vector<std::byte> buffer(std::min<uint64_t>(kPiece, entry.bytes));
  Checksum checksum;
  for (uint64_t done = 0; done < entry.bytes;) {
    const size_t count = std::min<uint64_t>(buffer.size(), entry.bytes - done);
    file.read_bytes(entry.begin + done, buffer.data(), count);
    checksum.update(buffer.data(), count);
    done += count;
  }
  check(tensor, slice, checksum.hex());
  proved.insert(&slice);
}

void Checkpoint::Impl::read_slice(const StoredTensor& tensor, const StoredSlice& slice,
                                  int64_t begin, const Tensor& into) {
  const SafetensorsFile& file = rank_file(slice.file);
  const TensorEntry& entry = file.at(tensor.name);
  if (into.numel() == slice.length && into.dtype() == tensor.dtype) {  // prove what was read
    file.read(entry, 0, into);
    check(tensor, slice, Checksum::of(into.data(), into.bytes()));
    return;
  }
  prove(tensor, slice);
  file.read(entry, begin, into);
}

std::string Checkpoint::Impl::side_file(const StoredFile& file) const {
  std::string content = read_file(path / file.name);
  if (Checksum::of(content.data(), content.size()) != file.checksum) {
    throw data_error((path / file.name).string() + ": the file does not match its checksum");
  }
  return content;
}

Checkpoint::Checkpoint() : impl_(std::make_unique<Impl>()) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const fs::path& directory) {
  Checkpoint checkpoint;
  Impl& impl = *checkpoint.impl_;
  impl.path = directory;
  const fs::path manifest = directory / kManifestName;
  if (!is_checkpoint(directory)) {
    throw data_error(directory.string() + ": no manifest.json in it: not a complete checkpoint");
  }
  impl.manifest = parse_manifest(read_file(manifest), manifest.string());
  for (const StoredFile& file : impl.manifest.files) {
    const fs::path path = directory / file.name;
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) {
      throw system_error(errno, "read", path.string(), ExitCode::kData);
    }
    if (!S_ISREG(info.st_mode)) throw data_error(path.string() + ": not a regular file");
    if (static_cast<uint64_t>(info.st_size) != file.bytes) {
      throw data_error(fmt::format("{}: {} bytes, but the manifest lists {}", path.string(),
                                   info.st_size, file.bytes));
    }
  }
  const StoredFile* config = impl.manifest.find_file(kConfigName);
  if (config == nullptr || config->rank_file) {
    throw data_error(manifest.string() + ": lists no config.json");
  }
  return checkpoint;
}

const fs::path& Checkpoint::path() const { return impl_->path; }
const Manifest& Checkpoint::manifest() const { return impl_->manifest; }

model::ModelConfig Checkpoint::config() const {
  const StoredFile& file = *impl_->manifest.find_file(kConfigName);
  model::ModelConfig config =
      parse_model_config(impl_->side_file(file), (impl_->path / kConfigName).string());
  const StoredFile* generation = impl_->manifest.find_file(kGenerationConfig);
  if (generation != nullptr && !generation->rank_file) {
    parse_generation_config(impl_->side_file(*generation),
                            (impl_->path / kGenerationConfig).string(), config);
  }
  return config;
}

std::vector<SideFile> Checkpoint::side_files() const {
  std::vector<SideFile> files;
  for (const StoredFile& file : impl_->manifest.files) {
    if (file.rank_file || file.name == kConfigName) continue;
    files.push_back({file.name, impl_->side_file(file)});
  }
  return files;
}

void Checkpoint::verify() const {
  for (const StoredFile& file : impl_->manifest.files) {
    if (file.rank_file) {
      impl_->rank_file(file.name);
    } else {
      impl_->side_file(file);
    }
  }
  for (const StoredTensor& tensor : impl_->manifest.tensors) {
    for (const StoredSlice& slice : tensor.slices) impl_->prove(tensor, slice);
  }
}

void Checkpoint::read(std::string_view name, int64_t begin, const Tensor& into) const {
  const StoredTensor* tensor = impl_->manifest.find(name);
  if (tensor == nullptr) {
    throw data_error(
        fmt::format("{}: tensor {} is missing", impl_->path.string(), printable(name)));
  }
  const int64_t end = begin + into.numel();
  if (begin < 0 || end > tensor->numel() || !into.contiguous()) {
    throw bug(fmt::format("a read of elements {} to {} of tensor {}, which has {}", begin, end,
                          name, tensor->numel()));
  }
  const auto real = [](DType dtype) {
    return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16;
  };
  if (into.dtype() != tensor->dtype && !(real(into.dtype()) && real(tensor->dtype))) {
    throw data_error(fmt::format("{}: tensor {} is stored as {}, but {} is wanted",
                                 impl_->path.string(), printable(name), name_of(tensor->dtype),
                                 name_of(into.dtype())));
  }
  for (const StoredSlice& slice : tensor->slices) {
    const int64_t from = std::max(begin, slice.offset);
    const int64_t to = std::min(end, slice.offset + slice.length);
    if (from >= to) continue;
    Tensor part(into.data() + static_cast<size_t>(from - begin) * size_of(into.dtype()),
                into.dtype(), {to - from});
    impl_->read_slice(*tensor, slice, from - slice.offset, part);
  }
}

void Checkpoint::require_tensors_of(const model::ModelConfig& config) const {
  std::set<std::string_view> known;
  std::vector<std::string> missing;
  const std::vector<ModelTensor> tensors = model_tensors(config);
  for (const auto& [spec, balancing] : tensors) {
    known.insert(spec.name);
    const StoredTensor* stored = impl_->manifest.find(spec.name);
    if (stored == nullptr) {
      missing.push_back(spec.name);
    } else if (stored->shape != spec.shape) {
      throw data_error(fmt::format("{}: tensor {} has another shape than config.json gives it",
                                   impl_->path.string(), spec.name));
    }
  }
  std::vector<std::string> unexpected;
  for (const StoredTensor& tensor : impl_->manifest.tensors) {
    if (!known.contains(tensor.name) && !tensor.name.starts_with(kOptimizerPrefix)) {
      unexpected.push_back(tensor.name);
    }
  }
  require_none_left(impl_->path.string(), missing, unexpected);
}

void Checkpoint::load(model::Parameters& parameters) const {
  checkpoint::load(CheckpointWeights(*this, parameters.config()), parameters);
}

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / kManifestName, ignored);
}

}  // namespace athanor::checkpoint
