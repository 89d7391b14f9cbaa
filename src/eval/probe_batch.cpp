#include "eval/probe_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checkpoint/safetensors.h"

namespace athanor::eval {
namespace {

constexpr int64_t kNoTarget = -100;  // Hugging Face's mark for a place without a target

using checkpoint::SafetensorsFile;
using checkpoint::TensorEntry;

// A tensor of integers, whatever integer type it is stored as; nothing when the file lacks it.
std::optional<std::vector<int64_t>> read_integers(const SafetensorsFile& file, const char* name,
                                                  const std::vector<int64_t>* wanted_shape) {
  const TensorEntry* entry = file.find(name);
  if (entry == nullptr) return std::nullopt;
  const bool integral =
      entry->type == DType::kI64 || entry->type == DType::kI32 || entry->type == DType::kU8;
  if (!integral) {
    throw data_error(fmt::format("{}: {} is {}; I64 or I32 is wanted", file.path().string(), name,
                                 entry->describe()));
  }
  if (wanted_shape != nullptr && entry->shape != *wanted_shape) {
    throw data_error(fmt::format("{}: {} is {}, but input_ids is [{}, {}]", file.path().string(),
                                 name, entry->describe(), (*wanted_shape)[0], (*wanted_shape)[1]));
  }
  std::vector<int64_t> values(entry->numel());
  if (!values.empty()) file.read(*entry, 0, Tensor::of(values.data(), {entry->numel()}));
  return values;
}

int32_t checked_id(int64_t id, int64_t vocab, const char* name, int64_t place, int64_t length,
                   const std::string& where) {
  if (id < 0 || id >= vocab) {
    throw usage_error(fmt::format("{}: {}[{}, {}] is {}, outside the model's vocabulary of {}",
                                  where, name, place / length, place % length, id, vocab));
  }
  return static_cast<int32_t>(id);
}

// A document: the places [begin, end) of the B·T that it covers.
struct Span {
  int64_t begin;
  int64_t end;
};

std::vector<Span> documents_of_mask(const std::vector<int64_t>& mask, int64_t rows, int64_t length,
                                    const std::string& where) {
  std::vector<Span> documents;
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = mask.begin() + row * length, end = begin + length;
    const auto first = std::find_if(begin, end, [](int64_t m) { return m != 0; });
    const bool left_padded =
        first != end && std::all_of(first, end, [](int64_t m) { return m == 1; });
    if (!left_padded) {
      throw data_error(fmt::format(
          "{}: attention_mask: row {} is not left padding (0s, then at least one 1)", where, row));
    }
    documents.push_back({first - mask.begin(), (row + 1) * length});
  }
  return documents;
}

std::vector<Span> documents_of_boundaries(const std::vector<int64_t>& boundaries, int64_t rows,
                                          int64_t length, const std::string& where) {
  const int64_t tokens = rows * length;
  if (boundaries.size() < 2 || boundaries.front() != 0 || boundaries.back() != tokens) {
    throw data_error(
        fmt::format("{}: cu_seqlens must run from 0 to the {} tokens of input_ids", where, tokens));
  }
  std::vector<Span> documents;
  for (size_t i = 1; i < boundaries.size(); ++i) {
    const Span document{boundaries[i - 1], boundaries[i]};
    if (document.end <= document.begin) {
      throw data_error(fmt::format("{}: cu_seqlens must rise: entry {} is {} after {}", where, i,
                                   document.end, document.begin));
    }
    if (document.end > tokens || document.begin / length != (document.end - 1) / length) {
      throw data_error(
          fmt::format("{}: cu_seqlens: document {} crosses a row of input_ids", where, i - 1));
    }
    documents.push_back(document);
  }
  return documents;
}

std::vector<Span> documents_of(const SafetensorsFile& file, const std::vector<int64_t>& shape) {
  const std::string where = file.path().string();
  const auto mask = read_integers(file, "attention_mask", &shape);
  const auto boundaries = read_integers(file, "cu_seqlens", nullptr);
  if (mask && boundaries) {
    throw data_error(where + ": attention_mask and cu_seqlens exclude each other");
  }
  if (mask) return documents_of_mask(*mask, shape[0], shape[1], where);
  if (boundaries) return documents_of_boundaries(*boundaries, shape[0], shape[1], where);
  std::vector<Span> documents;
  for (int64_t row = 0; row < shape[0]; ++row) {
    documents.push_back({row * shape[1], (row + 1) * shape[1]});
  }
  return documents;
}

}  // namespace

int64_t ProbeBatch::longest() const {
  int64_t most = 0;
  for (size_t s = 1; s < begins.size(); ++s) most = std::max(most, begins[s] - begins[s - 1]);
  return most;
}

ProbeBatch read_probe_batch(const fs::path& path, int64_t vocab) {
  const SafetensorsFile file(path);
  const std::string where = path.string();
  const std::vector<int64_t> shape = file.at("input_ids").shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
    throw data_error(fmt::format("{}: input_ids is {}; [rows, tokens] is wanted", where,
                                 file.at("input_ids").describe()));
  }
  const std::vector<int64_t> ids = *read_integers(file, "input_ids", &shape);
  const auto targets = read_integers(file, "targets", &shape);
  const auto labels = read_integers(file, "labels", &shape);

  ProbeBatch batch;
  batch.rows = shape[0];
  batch.length = shape[1];
  batch.begins = {0};
  for (const Span& document : documents_of(file, shape)) {
    for (int64_t place = document.begin; place < document.end; ++place) {
      batch.ids.push_back(checked_id(ids[place], vocab, "input_ids", place, batch.length, where));
      batch.places.push_back(place);
      if (!targets && !labels) continue;
      int64_t target = kNoTarget;
      const char* name = targets ? "targets" : "labels";
      int64_t from = place;
      if (targets) {
        target = (*targets)[place];
      } else if (place + 1 < document.end) {
        target = (*labels)[from = place + 1];
      }
      if (target == kNoTarget) {
        batch.targets.push_back(-1);
      } else {
        batch.targets.push_back(checked_id(target, vocab, name, from, batch.length, where));
        ++batch.target_count;
      }
    }
    batch.begins.push_back(static_cast<int64_t>(batch.ids.size()));
  }
  if (!batch.targets.empty() && batch.target_count == 0) {
    throw data_error(where +
                     ": targets or labels leave no token with a target; without both there "
                     "is no loss to compute");
  }
  return batch;
}

}  // namespace athanor::eval
